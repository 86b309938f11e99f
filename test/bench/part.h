// The parts of a run, and the context that each of them gets.
#pragma once

#include <chrono>
#include <string>
#include <vector>

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

struct Part {
  std::string name;
  void (*run)(Bench&);
};

const std::vector<Part>& parts();

void throughput(Bench& bench);  // limit, send.batch, receive.empty_handler, ratio, memory, client
void sends(Bench& bench);       // send.one_thread, send.eight_threads
void worker(Bench& bench);      // receive.one_worker
void end_to_end(Bench& bench);
void lateness(Bench& bench);
void wake(Bench& bench);
void idle(Bench& bench);
void herd(Bench& bench);
void million(Bench& bench);  // stall, probe, backlog

inline double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }
inline double since(Clock::time_point start) { return seconds(Clock::now() - start); }

// CPU time of this process with all its threads, in seconds.
double cpu_time();

// The payload of all figures: 64 bytes.
std::string payload();

inline constexpr std::chrono::hours kLater{1};

}  // namespace bench
