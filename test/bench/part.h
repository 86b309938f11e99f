// The parts of a run, and the context that each of them gets.
#pragma once

#include "bench/figures.h"
#include "bench/progress.h"
#include "bench/scale.h"
#include "bench/server.h"

namespace bench {

using Clock = std::chrono::steady_clock;

struct Bench {
  Server& server;
  const Scale& scale;
  Figures& figures;
  Progress& progress;
  const Clock::time_point start = Clock::now();  // of the whole run
};

// The runs that have a part. The test (--tiny) has all parts.
enum class Runs {
  all,
  full,       // not with --quick
  on_request  // only if --only names it
};

struct Part {
  std::string name;
  void (*run)(Bench&);
  Runs runs = Runs::all;
};

const std::vector<Part>& parts();

void throughput(Bench& bench);  // limit, send.batch, receive.empty_handler, ratio, memory, client
void sends(Bench& bench);       // send.one_thread, send.eight_threads, limit.round_trip, limit.script
void receives(Bench& bench);    // receive.scheduled, receive.due
void end_to_end(Bench& bench);
void payloads(Bench& bench);   // payload
void big_sends(Bench& bench);  // send_1mib of stall_ms, redis_us and probe_ms
void border(Bench& bench);
void batches(Bench& bench);  // batch
void links(Bench& bench);    // link
void sharing(Bench& bench);
void headers(Bench& bench);
void queue_limits(Bench& bench);  // limits
void unique_keys(Bench& bench);   // unique
void registry(Bench& bench);
void lateness(Bench& bench);
void load(Bench& bench);
void wake(Bench& bench);
void idle(Bench& bench);
void herd(Bench& bench);
void crowd(Bench& bench);
void burst(Bench& bench);
void sleepers(Bench& bench);
void many_queues(Bench& bench);
void deliveries(Bench& bench);  // deliveries, memory.bytes_per_delivery
void durability(Bench& bench);
void transport(Bench& bench);
void processes(Bench& bench);
void partitions(Bench& bench);
void lone_messages(Bench& bench);  // partitions.lone
void rss(Bench& bench);
void million(Bench& bench);  // stall, probe, backlog

inline double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }
inline double since(Clock::time_point start) { return seconds(Clock::now() - start); }

// CPU time of this process with all its threads, in seconds.
double cpu_time();

// Resident memory of a process, in MiB. Throws std::runtime_error if it cannot be read.
double resident_mib(int process);

// How often the calling thread has slept, for example because it waited for an answer.
long sleeps();

// The same of all threads of this process, with those that have ended.
long process_sleeps();

// The payload of all figures that name no other: 64 bytes.
std::string payload();

inline constexpr std::chrono::hours kLater{1};

}  // namespace bench
