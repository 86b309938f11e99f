// What an outage of Redis costs a web service, with send_timeout and with one attempt for each call.
//
// 32 threads serve 200 requests a second, and a tenth of them sends. All times are a quarter of those of a service, so
// that the test is short: 800 requests a second, a send_timeout of 0.5 s for 2 s, and an outage of 3 s for 12 s.
#include "support/test.h"

#include <signal.h>

namespace delayqueue {
namespace {

using std::chrono::duration_cast;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kServiceThreads = 32;
constexpr auto kBetweenRequests = 1250us;
constexpr std::size_t kSendsEach = 10;
constexpr milliseconds kSendTimeout{500};
constexpr milliseconds kLateAfter{500};
constexpr milliseconds kBefore{300};
constexpr milliseconds kLongOutage{3'000};
constexpr milliseconds kShortOutage{300};
constexpr milliseconds kAfter{1'000};

// The results of one service.
struct ServiceReport {
  std::size_t requests = 0, late = 0;  // that do not send
  std::size_t sends = 0, failed = 0;
  std::size_t in_doubt = 0;  // of these
  milliseconds worst{0};     // of the requests that do not send
  std::size_t stored = 0;

  double late_percent() const { return 100.0 * static_cast<double>(late) / static_cast<double>(requests); }
};

// Threads that serve requests in the order in which these come, as a web server does.
class Service {
 public:
  Service(Producer& producer, Steady::time_point until) : producer_(producer), until_(until) {
    for (std::size_t i = 0; i < kServiceThreads; ++i) threads_.emplace_back([this] { serve(); });
  }

  ServiceReport finish() {
    for (std::thread& thread : threads_) thread.join();
    return report_;
  }

 private:
  void serve() {
    for (;;) {
      const std::size_t number = next_++;
      const auto comes = begun_ + number * kBetweenRequests;
      if (comes >= until_) return;
      std::this_thread::sleep_until(comes);
      if (number % kSendsEach != 0) {
        const auto took = duration_cast<milliseconds>(Steady::now() - comes);
        const std::lock_guard lock(mutex_);
        ++report_.requests;
        if (took > kLateAfter) ++report_.late;
        report_.worst = std::max(report_.worst, took);
        continue;
      }
      bool failed = false, in_doubt = false;
      try {
        producer_.send("x");
      } catch (const ConnectionError& e) {
        failed = true;
        in_doubt = !e.not_sent();
      }
      const std::lock_guard lock(mutex_);
      ++report_.sends;
      if (failed) ++report_.failed;
      if (in_doubt) ++report_.in_doubt;
    }
  }

  Producer& producer_;
  const Steady::time_point until_;
  const Steady::time_point begun_ = Steady::now();
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // guards the next
  ServiceReport report_;
  std::vector<std::thread> threads_;  // last: they use the others
};

enum class HowAway { closed, frozen };

ServiceReport serve_during(HowAway kind, milliseconds outage, milliseconds send_timeout) {
  PrivateServer server;
  ClientOptions client;
  client.command_timeout = 750ms;
  client.connect_timeout = 500ms;
  ProducerOptions options;
  options.send_timeout = send_timeout;
  options.logger = no_log();
  const std::string queue = fresh_queue();
  Producer producer({server.url(), client}, queue, options);
  producer.send("connects");
  Service service(producer, Steady::now() + kBefore + outage + kAfter);
  std::this_thread::sleep_for(kBefore);
  const int pid = server.pid();
  const auto away = Steady::now();
  kind == HowAway::closed ? server.stop() : static_cast<void>(::kill(pid, SIGSTOP));
  std::this_thread::sleep_until(away + outage);
  kind == HowAway::closed ? server.restart() : static_cast<void>(::kill(pid, SIGCONT));
  ServiceReport report = service.finish();
  report.stored = Inspector(server.url(), queue).counts().ready - 1;
  return report;
}

std::string text_of(const std::string& what, const ServiceReport& report) {
  return what + ": " + std::to_string(report.late) + " of " + std::to_string(report.requests) + " requests late (" +
         std::to_string(static_cast<int>(report.late_percent())) + " %), worst " +
         std::to_string(report.worst.count()) + " ms; " + std::to_string(report.failed) + " of " +
         std::to_string(report.sends) + " sends failed";
}

TEST_CASE("repeat: an outage makes few requests of a web service late, and a short one fails no send") {
  struct Run {
    std::string what;
    HowAway kind;
    milliseconds outage, send_timeout;
    std::future<ServiceReport> future{};
  };
  std::vector<Run> runs;
  for (const HowAway kind : {HowAway::closed, HowAway::frozen}) {
    const std::string name = kind == HowAway::closed ? "closed port" : "frozen";
    runs.push_back({name + ", one attempt", kind, kLongOutage, 0ms});
    runs.push_back({name + ", send_timeout", kind, kLongOutage, kSendTimeout});
    runs.push_back({name + " for a short time, send_timeout", kind, kShortOutage, 10 * kSendTimeout});
  }
  for (Run& run : runs) {
    run.future = std::async(std::launch::async, [&] { return serve_during(run.kind, run.outage, run.send_timeout); });
  }
  std::vector<ServiceReport> reports;
  for (Run& run : runs) {
    reports.push_back(run.future.get());
    MESSAGE(text_of(run.what, reports.back()));
    const ServiceReport& last = reports.back();
    CHECK(last.stored >= last.sends - last.failed);
    CHECK(last.stored <= last.sends - last.failed + last.in_doubt);
  }
  const ServiceReport &closed = reports[1], &closed_shortly = reports[2];
  const ServiceReport &frozen_once = reports[3], &frozen = reports[4], &frozen_shortly = reports[5];
  CHECK(frozen_once.late_percent() > 5);  // this is what the rest is compared with
  CHECK(closed.late_percent() < 20);
  CHECK(frozen.late_percent() < 20);
  CHECK(frozen.late_percent() < frozen_once.late_percent() / 2);
  CHECK(closed.failed > 0);
  CHECK(frozen.failed > 0);
  CHECK(closed_shortly.failed == 0);
  CHECK(frozen_shortly.failed == 0);
}

}  // namespace
}  // namespace delayqueue
