// Logs as JSON: a line for each handled message, and one for each entry of the library's log.   json_log [URL]

#include "command_line.h"

#include <delayqueue/delayqueue.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace {

using namespace std::chrono_literals;
using delayqueue::Message;
using delayqueue::Verdict;
using Clock = std::chrono::steady_clock;

// 2026-11-23T18:54:32.123Z
std::string now() {
  const auto time = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char day[40], text[60];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03dZ", day, static_cast<int>(ms));
  return text;
}

// A line with one JSON object.
class JsonLine {
 public:
  explicit JsonLine(std::string_view event) {
    add("time", now());
    add("event", event);
  }

  // Leaves an empty value out.
  void add(std::string_view name, std::string_view value) {
    if (!value.empty()) add_raw(name, '"' + escaped(value) + '"');
  }
  void add(std::string_view name, int value) { add_raw(name, std::to_string(value)); }
  void add(std::string_view name, std::chrono::duration<double, std::milli> value) {
    add_raw(name, std::to_string(value.count()));
  }

  // Writes it to stdout with one call, so that lines of several threads do not mix.
  void print() const {
    std::fputs((text_ + "}\n").c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  void add_raw(std::string_view name, const std::string& value) {
    text_ += (text_.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + value;
  }

  // The name of a queue and the text of an exception may hold any bytes, and JSON must be UTF-8. So a byte that is not
  // printable ASCII becomes the character with this number.
  static std::string escaped(std::string_view value) {
    std::string text;
    for (const char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      if (c >= ' ' && c <= '~') {
        text += c;
      } else {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        text += code;
      }
    }
    return text;
  }

  std::string text_;
};

// ConsumerOptions::middleware. With a handler of a Delivery there is no verdict yet.
std::optional<Verdict> log_handled(const Message& message, const delayqueue::NextHandler& next) {
  const Clock::time_point began = Clock::now();
  const auto print = [&](std::string_view verdict, std::string_view reason) {
    JsonLine line("handled");
    line.add("queue", message.queue());
    line.add("message_id", message.id());
    line.add("attempt", message.attempt());
    line.add("duration_ms", Clock::now() - began);
    line.add("verdict", verdict);
    line.add("reason", reason);
    line.print();
  };
  try {
    std::optional<Verdict> verdict = next();
    print(verdict ? to_string(verdict->kind()) : "later", verdict ? verdict->reason() : "");
    return verdict;
  } catch (const std::exception& e) {
    print("nack", e.what());  // the library makes a nack of it
    throw;
  } catch (...) {
    print("nack", "");
    throw;
  }
}

// The logger of producers and consumers.
void log_entry(const delayqueue::LogEntry& entry) {
  if (entry.severity == delayqueue::Severity::debug) return;
  JsonLine line("log");
  line.add("severity", to_string(entry.severity));
  line.add("text", entry.text);
  line.add("queue", entry.queue);
  line.add("consumer", entry.consumer);
  line.add("server", entry.server);
  line.add("message_id", entry.message_id);
  line.print();
}

// A handler with all kinds of ends.
Verdict handle(const Message& message) {
  const bool first = message.attempt() == 1;
  if (message.payload() == "throws once" && first) throw std::runtime_error("stock service:\t\"timeout\"");
  if (message.payload() == "is refused") return delayqueue::reject("no such order");
  if (message.payload() == "hangs once" && first) {
    while (!message.lease_lost()) std::this_thread::sleep_for(10ms);
    return delayqueue::nack("too slow");  // too late, or not: the message is delivered again
  }
  return delayqueue::ack();
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv, "embedded:");
  if (!line.words.empty()) {
    std::cerr << "usage: json_log [URL]\n  URL: as for send; default: embedded:\n";
    return 2;
  }

  return run_main("json_log", [&] {
    constexpr char kQueue[] = "json-log";
    delayqueue::Producer producer(line.url, kQueue, {.logger = log_entry});
    producer.send_batch({"is fine", "throws once", "is refused", "hangs once"});
    delayqueue::Consumer worker(line.url, kQueue, handle,
                                {.concurrency = 2,
                                 .lease = 500ms,
                                 .backoff = delayqueue::Backoff::fixed(100ms),
                                 .processing_timeout = 300ms,
                                 .logger = log_entry,
                                 .middleware = log_handled,
                                 .tuning = {.reconnect_grace = 0ms}});
    worker.start();
    delayqueue::Inspector inspector(line.url, kQueue);
    const auto is_done = [&] {
      const delayqueue::Counts counts = inspector.counts();
      return counts.pending + counts.ready + counts.unack + counts.retry == 0;
    };
    const Clock::time_point end = Clock::now() + 60s;
    while (!is_done() && Clock::now() < end) std::this_thread::sleep_for(50ms);
    const bool done = is_done();
    return worker.stop(20s) && done ? 0 : 1;
  });
}
