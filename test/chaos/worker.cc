#include "chaos/worker.h"

#include <signal.h>
#include <unistd.h>

#include "chaos/mix.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using delayqueue::Event;
using delayqueue::EventKind;
using delayqueue::milliseconds;
using delayqueue::Verdict;

constexpr std::int64_t kHeldEvery = 100'000;

// Writes the journal of one delivery.
class LoggedDelivery {
 public:
  LoggedDelivery(const Journal& journal, const delayqueue::Message& message, const Task& task, bool headers)
      : journal_(journal), message_(message), name_(message.id() + ' ' + std::to_string(++count_)) {
    const std::int64_t now = now_us();
    const bool held = !message.lease_lost();
    if (held) last_held_ = last_logged_ = now;
    journal_.line_at(
        now, "begin " + name_ + ' ' + task.token + ' ' + std::to_string(message.attempt()) + (held ? " 1" : " 0"));
    if (message.headers() != headers_of(task.token, headers)) journal_.line("headers " + name_);
    if (message.payload() != payload_of(task)) journal_.line("payload " + name_);
  }

  // Reads the clock before the lease: a lease that is held later was held at the time that was read.
  void observe() {
    const std::int64_t now = now_us();
    if (message_.lease_lost()) {
      if (!lost_) journal_.line("lost " + name_);
      lost_ = true;
      return;
    }
    last_held_ = now;
    if (now - last_logged_ < kHeldEvery) return;
    journal_.line_at(now, "held " + name_);
    last_logged_ = now;
  }

  void work_for(milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(10ms);
      observe();
    }
  }

  void record(const char* what) {
    observe();
    journal_.line("verdict " + name_ + ' ' + what + ' ' + std::to_string(last_held_));
  }

  Verdict record(const char* what, Verdict verdict) {
    record(what);
    return verdict;
  }

  [[noreturn]] void die() {
    record("die");
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }

 private:
  static std::atomic<std::int64_t> count_;

  const Journal& journal_;
  const delayqueue::Message& message_;
  const std::string name_;
  std::int64_t last_held_ = 0;
  std::int64_t last_logged_ = 0;
  bool lost_ = false;
};

std::atomic<std::int64_t> LoggedDelivery::count_{0};

Verdict handle(LoggedDelivery& delivery, const Task& task, int attempt) {
  const bool first = attempt == 1;
  switch (task.kind) {
    case Kind::ok:
    case Kind::few:
      break;
    case Kind::slow:
      delivery.work_for(milliseconds(task.number));
      break;
    case Kind::hang:
      delivery.work_for(first ? 6s : 3s);  // the second delivery begins while the first one runs
      break;
    case Kind::nack_once:
      if (first) return delivery.record("nack", delayqueue::nack(50ms, "once"));
      break;
    case Kind::throw_once:
      if (!first) break;
      delivery.record("nack");
      throw std::runtime_error("once");
    case Kind::crash_once:
      if (first) delivery.die();
      break;
    case Kind::snooze:
      if (now_us() / 1000 >= task.number) break;
      if (task.number % 8 == 0) return delivery.record("snooze", delayqueue::pause_queue(40ms, "as after a 429"));
      return delivery.record("snooze", delayqueue::snooze(300ms));
    case Kind::nack:
      return delivery.record("nack", delayqueue::nack(milliseconds(task.number), "always"));
    case Kind::reject:
      return delivery.record("reject", delayqueue::reject("refused"));
    case Kind::poison:
      delivery.die();
  }
  return delivery.record("ack", delayqueue::ack());
}

void note_event(const Journal& journal, const Event& event) {
  const char* name = nullptr;
  if (event.kind == EventKind::acked) name = "acked ";
  if (event.kind == EventKind::nacked) name = "nacked ";
  if (event.kind == EventKind::retried) name = "retried ";
  if (event.kind == EventKind::dead_lettered) name = "dead_lettered ";
  if (name == nullptr) return;
  for (const std::string& id : event.ids) journal.line(name + id);
}

delayqueue::ConsumerOptions options_of(const Arguments& arguments, const Journal& journal) {
  delayqueue::ConsumerOptions options;
  options.concurrency = static_cast<std::size_t>(arguments.number("concurrency"));
  options.lease = milliseconds(arguments.number("lease"));
  options.processing_timeout = 4s;
  options.backoff = delayqueue::Backoff::fixed(50ms);
  if (arguments.number("replicas") > 0) options.durability = delayqueue::Durability::replicas(1, options.lease / 3);
  options.logger = [&journal](const delayqueue::LogEntry& entry) {
    journal.line("log " + std::to_string(static_cast<int>(entry.severity)) + ' ' + entry.line);
  };
  options.on_event = [&journal](const Event& event) { note_event(journal, event); };
  return options;
}

// A server that loads its data refuses commands. The loop tries again, as a supervised service does.
std::unique_ptr<delayqueue::Consumer> started(const Arguments& arguments, const Journal& journal) {
  const auto handler = [&journal, headers = arguments.number("headers") == 1](const delayqueue::Message& message) {
    const Task task = task_of(message.payload());
    LoggedDelivery delivery(journal, message, task, headers);
    return handle(delivery, task, message.attempt());
  };
  for (;;) {
    auto consumer = std::make_unique<delayqueue::Consumer>(client_of(arguments), arguments.text("queue"), handler,
                                                           options_of(arguments, journal));
    try {
      consumer->start();
      return consumer;
    } catch (const delayqueue::ReplyError& e) {
      journal.line(std::string("start_refused ") + e.what());
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

delayqueue::Client client_of(const Arguments& arguments) {
  delayqueue::ClientOptions options;
  options.client_name = arguments.text("name");
  options.command_timeout = milliseconds(arguments.number("timeout"));
  options.keys.go.remove_from_lists = arguments.number("mixed") == 1;
  options.keys.go.bodies_under_dp = arguments.number("old") == 1;  // the same keys, but no partitions
  return {arguments.text("url"), options};
}

int work(const Arguments& arguments) {
  sigset_t stop_signals;
  ::sigemptyset(&stop_signals);
  ::sigaddset(&stop_signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);  // before any thread starts, because threads inherit the mask

  const Journal journal(arguments.text("journal"));
  const auto consumer = started(arguments, journal);
  journal.line("started");
  int signal = 0;
  ::sigwait(&stop_signals, &signal);
  journal.line("stopping");
  const bool clean = consumer->stop(20s);
  journal.line(clean ? "stopped clean" : "stopped unclean");
  return clean ? 0 : kUncleanStop;
}

}  // namespace chaos
