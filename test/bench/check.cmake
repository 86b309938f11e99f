# Runs the benchmark with numbers so small that it takes seconds. Checks that its output has every documented figure,
# and that each is a plausible number. A figure may be missing only if the program printed that it is left out.
#   -DPROGRAM=delayqueue_bench
cmake_minimum_required(VERSION 3.19)

set(figures
  limit.send limit.receive
  limit.send_two_in_flight limit.receive_two_in_flight limit.send_mset limit.receive_others_in_flight
  limit.round_trip.one_core limit.round_trip.two_cores limit.script.one_core limit.script.two_cores
  limit.send_script.one_core limit.send_script.two_cores limit.send_commands.one_core limit.send_commands.two_cores
  send_script_us.script send_script_us.commands send_script_us.empty
  send.batch send.batch_compared send.eight_threads
  send.one_thread.one_core send.one_thread.two_cores send.one_thread.unpinned
  sleeps_per_send.one_core sleeps_per_send.two_cores sleeps_per_send.unpinned
  sleeps_per_send.eight_threads messages_per_call.eight_threads
  receive.empty_handler receive.one_worker
  receive.scheduled.one_worker receive.scheduled.eight_workers receive.due.one_worker receive.due.eight_workers
  end_to_end limit.end_to_end limit.end_to_end_moves
  redis_us.end_to_end redis_us.limit_end_to_end redis_us.limit_end_to_end_moves
  payload.64.send payload.64.receive payload.64.limit_send
  payload.1024.send payload.1024.receive payload.1024.limit_send
  payload.16384.send payload.16384.receive payload.16384.limit_send
  payload.1048576.send payload.1048576.receive payload.1048576.limit_send
  limit.delivery_redis_us
  batch.1.redis_us batch.10.redis_us batch.100.redis_us batch.200.redis_us
  batch.1.send_redis_us batch.10.send_redis_us batch.100.send_redis_us batch.200.send_redis_us
  link.none.send link.none.receive link.0.send link.0.receive link.1.send link.1.receive link.4.send link.4.receive
  ratio.send ratio.receive ratio.one_thread.one_core ratio.one_thread.two_cores
  sharing.1.own.send sharing.1.own.p99_us sharing.1.shared.send sharing.1.shared.p99_us ratio.sharing_1
  sharing.2.own.send sharing.2.own.p99_us sharing.2.shared.send sharing.2.shared.p99_us ratio.sharing_2
  sharing.8.own.send sharing.8.own.p99_us sharing.8.shared.send sharing.8.shared.p99_us ratio.sharing_8
  headers.none.send_one_redis_us headers.none.send_redis_us headers.none.receive_redis_us
  headers.trace.send_one_redis_us headers.trace.send_redis_us headers.trace.receive_redis_us
  headers.1kib.send_one_redis_us headers.1kib.send_redis_us headers.1kib.receive_redis_us
  limits.none.send_one_redis_us limits.none.send_redis_us limits.none.receive_redis_us
  limits.rate.send_one_redis_us limits.rate.send_redis_us limits.rate.receive_redis_us
  limits.running.send_one_redis_us limits.running.send_redis_us limits.running.receive_redis_us
  limits.both.send_one_redis_us limits.both.send_redis_us limits.both.receive_redis_us
  limits.length.send_one_redis_us limits.length.send_redis_us limits.length.receive_redis_us
  unique.none.send_one_redis_us unique.none.send_redis_us unique.none.receive_redis_us
  unique.fresh.send_one_redis_us unique.fresh.send_redis_us unique.fresh.receive_redis_us
  unique.kept.send_redis_us unique.replaced.send_redis_us
  registry.1.call_us registry.100.call_us registry.1000.call_us
  registry.1.read_ms registry.100.read_ms registry.1000.read_ms
  ratio.link_0_send ratio.link_0_receive ratio.link_1_send ratio.link_1_receive ratio.link_4_send ratio.link_4_receive
  limit.timer_ms.min limit.timer_ms.p50 limit.timer_ms.p99 limit.timer_ms.max
  lateness_ms.min lateness_ms.p50 lateness_ms.p99 lateness_ms.max
  load.capacity
  load.25.lateness_ms.p50 load.25.lateness_ms.p99 load.25.lateness_ms.p999
  load.50.lateness_ms.p50 load.50.lateness_ms.p99 load.50.lateness_ms.p999
  load.75.lateness_ms.p50 load.75.lateness_ms.p99 load.75.lateness_ms.p999
  wake_ms.p50 wake_ms.p99
  stall_ms.send stall_ms.pending2ready stall_ms.ready2unack stall_ms.unack2retry stall_ms.ack stall_ms.cancel
  stall_ms.purge stall_ms.pending2unack
  stall_ms.send_1mib stall_ms.send_1mib_new_id stall_ms.send_1mib_first stall_ms.send_1mib_own_id
  stall_p50_ms.send_1mib stall_p50_ms.send_1mib_new_id stall_p50_ms.send_1mib_first stall_p50_ms.send_1mib_own_id
  redis_us.send_1mib
  probe_ms.p50 probe_ms.p999 probe_ms.send_1mib.p50 probe_ms.send_1mib.p99 probe_ms.send_1mib.max
  probe_ms.alone.p50 probe_ms.alone.p99 probe_ms.alone.max
  idle.requests_per_s idle.cpu_percent
  herd.requests
  crowd.requests_per_s crowd.lateness_ms.p50 crowd.lateness_ms.p99
  burst.lateness_ms.p50 burst.lateness_ms.p99 burst.lateness_ms.max burst.probe_ms.p50 burst.probe_ms.p99
  sleepers.64.share sleepers.256.share
  many_queues.1.receive many_queues.10.receive many_queues.100.receive
  many_queues.one_of_100.receive ratio.many_queues_one_of_100
  many_queues.share.6 many_queues.share.3 many_queues.share.1
  many_queues.quiet.alone.lateness_ms.p50 many_queues.quiet.alone.lateness_ms.p99
  many_queues.quiet.flooded.lateness_ms.p50 many_queues.quiet.flooded.lateness_ms.p99
  many_queues.quiet.flooded_apart.lateness_ms.p50 many_queues.quiet.flooded_apart.lateness_ms.p99
  many_queues.quiet.flooded_1ms.lateness_ms.p50 many_queues.quiet.flooded_1ms.lateness_ms.p99
  many_queues.idle_requests_per_s many_queues.idle_cpu_percent
  deliveries.settle memory.bytes_per_delivery
  durability.none.send durability.none.receive durability.everysec.send durability.everysec.receive
  durability.always.send durability.always.receive
  transport.unix.send transport.unix.receive transport.tcp.send transport.tcp.receive
  transport.tls.send transport.tls.receive
  processes.1.receive processes.2.receive processes.4.receive
  partitions.3.one_master.send partitions.3.one_master.receive partitions.3.one_master.redis_us
  partitions.3.queue_on_each.send partitions.3.queue_on_each.receive partitions.3.queue_on_each.redis_us
  partitions.3.all_masters.send partitions.3.all_masters.receive partitions.3.all_masters.redis_us
  partitions.3.busiest partitions.6.busiest partitions.12.busiest
  ratio.partitions_3_send ratio.partitions_3_receive ratio.partitions_3_redis_us
  ratio.partitions_3_send_queue_on_each ratio.partitions_3_receive_queue_on_each
  ratio.partitions_3_redis_us_queue_on_each
  ratio.partitions_6_send ratio.partitions_6_receive ratio.partitions_6_redis_us
  ratio.partitions_12_send ratio.partitions_12_receive ratio.partitions_12_redis_us
  rss_mib.client.start rss_mib.client.end rss_mib.client.most
  rss_mib.server.start rss_mib.server.end rss_mib.server.most
  backlog.first_100k_per_s backlog.last_100k_per_s
  memory.bytes_per_message
  client.cpu_us_per_message)
foreach(size IN ITEMS 16 64 256 1024 4096 16384 65536 262144 1048576 4194304)
  list(APPEND figures border.${size}.one.script_us border.${size}.one.beside_us)
  if(size LESS 262144)
    list(APPEND figures border.${size}.batch.script_us border.${size}.batch.beside_us)
  endif()
endforeach()
set(may_be_zero sleeps_per_send.one_core sleeps_per_send.two_cores sleeps_per_send.unpinned
  idle.requests_per_s idle.cpu_percent herd.requests crowd.requests_per_s many_queues.idle_requests_per_s
  memory.bytes_per_delivery)

execute_process(COMMAND "${PROGRAM}" --tiny OUTPUT_VARIABLE json ERROR_VARIABLE progress RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --tiny failed with exit code ${result}:\n${progress}")
endif()

foreach(figure IN LISTS figures)
  if("${progress}" MATCHES "left out: [^\n]*${figure}[ ]")
    continue()
  endif()
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

string(JSON seconds ERROR_VARIABLE error GET "${json}" environment seconds)
if(NOT seconds MATCHES "^[0-9]+[.][0-9]$")
  message(SEND_ERROR "environment.seconds: '${seconds}' is not the duration of the run")
endif()

# A part that fails costs no figure of another one, but the exit code tells.
find_program(fails false REQUIRED)
execute_process(COMMAND "${PROGRAM}" --tiny --only wake --peers "${fails}"
  OUTPUT_VARIABLE json ERROR_VARIABLE progress RESULT_VARIABLE result)
string(JSON wake ERROR_VARIABLE error GET "${json}" wake_ms p50)
string(JSON failed ERROR_VARIABLE error GET "${json}" environment failed)
if(NOT result EQUAL 1 OR NOT wake GREATER 0 OR NOT failed STREQUAL "peers")
  message(SEND_ERROR "peers that fail: expected exit code 1, wake_ms.p50, and their name in environment.failed; "
    "got ${result}, '${wake}' and '${failed}': ${progress}")
endif()
if(NOT progress MATCHES "left out: the rest of the part peers \\(peers: ${fails} failed\\)")
  message(SEND_ERROR "peers that fail: expected a line with the reason, got: ${progress}")
endif()

execute_process(COMMAND "${PROGRAM}" --only nonsense OUTPUT_QUIET ERROR_VARIABLE advice RESULT_VARIABLE result)
if(NOT result EQUAL 2 OR NOT advice MATCHES "--only: no part 'nonsense'; expected one of throughput")
  message(SEND_ERROR "--only nonsense: expected exit code 2 with the names of all parts, got ${result}: ${advice}")
endif()
