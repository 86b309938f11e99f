# Runs the benchmark with numbers so small that it takes seconds. Checks that its output has every documented figure,
# and that each is a plausible number.   -DPROGRAM=delayqueue_bench
cmake_minimum_required(VERSION 3.19)

set(figures
  limit.send limit.receive
  send.batch send.one_thread send.eight_threads
  receive.empty_handler receive.one_worker
  end_to_end
  ratio.send ratio.receive
  lateness_ms.min lateness_ms.p50 lateness_ms.p99 lateness_ms.max
  wake_ms.p50 wake_ms.p99
  stall_ms.send stall_ms.pending2ready stall_ms.ready2unack stall_ms.unack2retry stall_ms.ack stall_ms.cancel
  stall_ms.purge
  probe_ms.p50 probe_ms.p999
  idle.requests_per_s idle.cpu_percent
  herd.requests
  backlog.first_100k_per_s backlog.last_100k_per_s
  memory.bytes_per_message
  client.cpu_us_per_message)
set(may_be_zero idle.requests_per_s idle.cpu_percent herd.requests)

execute_process(COMMAND "${PROGRAM}" --tiny OUTPUT_VARIABLE json ERROR_VARIABLE progress RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --tiny failed with exit code ${result}:\n${progress}")
endif()

foreach(figure IN LISTS figures)
  string(REPLACE "." ";" path "${figure}")
  string(JSON value ERROR_VARIABLE error GET "${json}" ${path})
  string(JSON type ERROR_VARIABLE error TYPE "${json}" ${path})
  if(NOT type STREQUAL "NUMBER")
    message(SEND_ERROR "${figure}: '${value}' is not a number")
  elseif(value LESS 0)
    message(SEND_ERROR "${figure}: ${value} is negative")
  elseif(NOT value GREATER 0 AND NOT figure IN_LIST may_be_zero)
    message(SEND_ERROR "${figure}: ${value}, so it was not measured")
  endif()
endforeach()

execute_process(COMMAND "${PROGRAM}" --only nonsense OUTPUT_QUIET ERROR_VARIABLE advice RESULT_VARIABLE result)
if(NOT result EQUAL 2 OR NOT advice MATCHES "--only: no part 'nonsense'; expected one of throughput")
  message(SEND_ERROR "--only nonsense: expected exit code 2 with the names of all parts, got ${result}: ${advice}")
endif()
