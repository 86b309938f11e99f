#include <delayqueue/metrics.h>

#include "queue/utf8.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <locale>
#include <sstream>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

using std::chrono::microseconds;
using SystemTime = std::chrono::system_clock::time_point;

// Whether a character is invisible or turns the direction of a line: the default ignorable ones of Unicode without
// those that choose between the forms of a character, the separators of lines, and annotations. A name with one could
// look like another name, and hide what follows it on a terminal.
bool is_invisible(unsigned code) {
  static constexpr std::pair<unsigned, unsigned> kRanges[] = {
      {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},     {0x115f, 0x1160},  {0x17b4, 0x17b5}, {0x180b, 0x180f},
      {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},  {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
      {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) { return code >= range.first && code <= range.second; });
}

// The length of the valid and printable UTF-8 character at the start of a text that is not empty; 0: there is none.
std::size_t printable_length(std::string_view text) {
  const Character first = first_character(text);
  return is_control(first.code) || is_invisible(first.code) ? 0 : first.length;
}

// A label. Queues of other programs may have any names.
std::string label(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"";
  while (!value.empty()) {
    const std::size_t length = printable_length(value);
    if (value.front() == '\n') {
      text += "\\n";
    } else if (length == 0) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(value.front())));
      text += escape;
    } else {
      if (value.front() == '"' || value.front() == '\\') text += '\\';
      text += value.substr(0, length);
    }
    value.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text + '"';
}

// Without a locale, and without digits that say nothing: 2.5, 300.
std::string seconds_text(microseconds span) {
  const long long us = std::max<long long>(0, span.count());
  char digits[40];
  std::snprintf(digits, sizeof digits, "%lld.%06lld", us / 1'000'000, us % 1'000'000);
  std::string text = digits;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Whole if it is, else with six significant digits; not by the locale.
std::string number_text(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << value;
  return text.str();
}

// Writes one metric after the other: begin(), then its samples.
class PrometheusText {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + ' ' + help + "\n# TYPE " + name_ + ' ' + type + '\n';
  }
  void add(const std::string& labels, std::uint64_t value) { line("", labels, std::to_string(value)); }
  void add(const std::string& labels, microseconds value) { line("", labels, seconds_text(value)); }
  void add(const std::string& labels, double value) { line("", labels, number_text(value)); }
  void add(const std::string& labels, bool value) { line("", labels, value ? "1" : "0"); }

  void add(const std::string& labels, const Histogram& histogram) {
    const auto& [bounds, counts, sum] = histogram;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i <= bounds.size(); ++i) {
      if (i < counts.size()) count += counts[i];
      const std::string bound = i < bounds.size() ? seconds_text(bounds[i]) : "+Inf";
      line("_bucket", labels + ',' + label("le", bound), std::to_string(count));
    }
    line("_sum", labels, seconds_text(sum));
    line("_count", labels, std::to_string(count));
  }

  std::string text() { return std::move(text_); }

 private:
  void line(const char* suffix, const std::string& labels, const std::string& value) {
    text_ += name_ + suffix + (labels.empty() ? "" : '{' + labels + '}') + ' ' + value + '\n';
  }

  std::string name_, text_;
};

struct TotalMetric {
  const char* name;
  const char* help;
  std::uint64_t Totals::*total;
};

constexpr TotalMetric kTotalMetrics[] = {
    {"delayqueue_sent_total", "Messages stored by senders, or restored.", &Totals::sent},
    {"delayqueue_delivered_total", "Deliveries to consumers.", &Totals::delivered},
    {"delayqueue_acked_total", "Messages settled as done.", &Totals::acked},
    {"delayqueue_nacked_total", "Deliveries settled as not done.", &Totals::nacked},
    {"delayqueue_retried_total", "Messages that became ready for another delivery.", &Totals::retried},
    {"delayqueue_dead_total", "Messages that became dead letters.", &Totals::dead_lettered},
    {"delayqueue_expired_total", "Messages removed because their payload was gone.", &Totals::expired},
    {"delayqueue_cancelled_total", "Messages cancelled.", &Totals::cancelled},
    {"delayqueue_redriven_total", "Dead letters made ready again.", &Totals::redriven},
    {"delayqueue_purged_total", "Messages purged.", &Totals::purged},
    {"delayqueue_skipped_total", "Occurrences of schedules that were left out, or replaced by later ones.",
     &Totals::skipped},
    {"delayqueue_foreign_total", "Ids that are no UUIDs, removed.", &Totals::foreign}};

struct StateMetric {
  const char* state;
  std::uint64_t Counts::*count;
};

constexpr StateMetric kStateMetrics[] = {{"pending", &Counts::pending}, {"ready", &Counts::ready},
                                         {"unack", &Counts::unack},     {"retry", &Counts::retry},
                                         {"dead", &Counts::dead},       {"garbage", &Counts::garbage}};

constexpr const char* kVerdictNames[] = {"ack", "nack", "reject", "snooze", "pause_queue"};  // by Verdict::Kind

// How long `since` is past; 0: it is not, or unset.
microseconds age(const std::optional<SystemTime>& since, SystemTime now) {
  return since && *since < now ? std::chrono::duration_cast<microseconds>(now - *since) : microseconds(0);
}

std::string label_of(const std::string& queue) { return label("queue", queue); }

// One metric with a sample for each element that has a value: of(element) returns it, or an unset optional.
template <class Elements, class Of>
void add_all(PrometheusText& text, const Elements& elements, const char* name, const char* type, const char* help,
             Of of) {
  text.begin(name, type, help);
  for (const auto& one : elements) {
    if (const std::optional value = of(one)) text.add(label_of(one.queue), *value);
  }
}

// The queues that could be read.
struct ReadQueue {
  std::string queue;
  const Counts& counts;
  microseconds round_trip;
};

void add_ages(PrometheusText& text, const std::vector<ReadQueue>& queues) {
  add_all(text, queues, "delayqueue_overdue_seconds", "gauge",
          "How long the first message in pending has been due and not moved; 0: none is due.",
          [](const ReadQueue& one) { return std::optional(age(one.counts.oldest_due, one.counts.now)); });
  add_all(text, queues, "delayqueue_queue_latency_seconds", "gauge",
          "How long one of the oldest messages in ready has waited to be taken; absent: not known.",
          [](const ReadQueue& one) -> std::optional<microseconds> {
            if (one.counts.ready > 0 && !one.counts.oldest_ready) return std::nullopt;
            return age(one.counts.oldest_ready, one.counts.now);
          });
  add_all(text, queues, "delayqueue_oldest_lease_overdue_seconds", "gauge",
          "How long ago the first lease or backoff ended that no consumer has taken back; 0: none.",
          [](const ReadQueue& one) { return std::optional(age(one.counts.oldest_lease, one.counts.now)); });
}

void add_counts(PrometheusText& text, const std::vector<ReadQueue>& queues) {
  text.begin("delayqueue_messages", "gauge", "Messages in each state; ready and retry are upper bounds.");
  for (const ReadQueue& one : queues) {
    for (const StateMetric& state : kStateMetrics) {
      text.add(label_of(one.queue) + ',' + label("state", state.state), one.counts.*state.count);
    }
  }
  const auto add = [&](const char* name, const char* help, auto of) { add_all(text, queues, name, "gauge", help, of); };
  add("delayqueue_due_messages", "Messages in pending that are due.",
      [](const ReadQueue& one) { return std::optional(one.counts.due); });
  add("delayqueue_overdue_leases", "Leases and backoffs that have ended, and that no consumer has taken back.",
      [](const ReadQueue& one) { return std::optional(one.counts.overdue); });
  add("delayqueue_paused", "1: the queue is paused.",
      [](const ReadQueue& one) { return std::optional(one.counts.paused); });
  add("delayqueue_pause_left_seconds", "How long the pause lasts; absent: not paused, or without an end.",
      [](const ReadQueue& one) {
        const auto& until = one.counts.paused_until;
        return until ? std::optional(age(one.counts.now, *until)) : std::nullopt;
      });
  add("delayqueue_partitions", "Partitions that consumers serve.",
      [](const ReadQueue& one) { return std::optional<std::uint64_t>(one.counts.partitions); });
  for (const TotalMetric& total : kTotalMetrics) {
    add_all(text, queues, total.name, "counter", total.help,
            [&](const ReadQueue& one) { return std::optional(one.counts.totals.*total.total); });
  }
}

// A queue without limits has none of these.
void add_limits(PrometheusText& text, const std::vector<ReadQueue>& queues) {
  text.begin("delayqueue_limit", "gauge",
             "Limits of the queue: deliveries a second, at once, messages in flight, and messages in all.");
  for (const ReadQueue& one : queues) {
    const auto add = [&](const char* limit, auto value) {
      text.add(label_of(one.queue) + ',' + label("limit", limit), value);
    };
    if (const auto& rate = one.counts.limits.rate) {
      add("rate", static_cast<double>(rate->messages) * 1000 / static_cast<double>(rate->per.count()));
      add("burst", rate->burst);
    }
    if (const auto& running = one.counts.limits.running) add("running", *running);
    if (const auto& length = one.counts.limits.length) add("length", *length);
  }
  add_all(text, queues, "delayqueue_running", "gauge", "Messages in flight that count against the limit.",
          [](const ReadQueue& one) {
            return one.counts.limits.running ? std::optional(one.counts.in_flight) : std::nullopt;
          });
  add_all(text, queues, "delayqueue_rate_wait_seconds", "gauge",
          "Time until the rate of the queue allows another delivery; 0: it does now.", [](const ReadQueue& one) {
            return one.counts.limits.rate ? std::optional(one.counts.next_delivery) : std::nullopt;
          });
}

void add_handlers(PrometheusText& text, const std::vector<ConsumerQueueMetrics>& queues) {
  using Queue = ConsumerQueueMetrics;
  text.begin("delayqueue_lateness_seconds", "histogram",
             "From the time at which a message was due until its handler began; one message of a take.");
  for (const Queue& one : queues) text.add(label_of(one.queue), one.lateness);
  text.begin("delayqueue_handler_seconds", "histogram", "From the beginning of a handler to its verdict.");
  for (const Queue& one : queues) {
    for (std::size_t kind = 0; kind < one.handler_time.size(); ++kind) {
      text.add(label_of(one.queue) + ',' + label("verdict", kVerdictNames[kind]), one.handler_time[kind]);
    }
  }
  add_all(text, queues, "delayqueue_handlers_running", "gauge",
          "Handlers that run, or deliveries that are not settled.",
          [](const Queue& one) { return std::optional(one.stats.running); });
  add_all(text, queues, "delayqueue_longest_running_seconds", "gauge",
          "How long the handler that began first has been running; 0: none runs.",
          [](const Queue& one) { return std::optional(one.longest_running); });
  add_all(text, queues, "delayqueue_prefetched_messages", "gauge", "Messages held, whose handler has not begun.",
          [](const Queue& one) { return std::optional(one.stats.prefetched); });
}

void add_leases(PrometheusText& text, const std::vector<ConsumerQueueMetrics>& queues) {
  using Queue = ConsumerQueueMetrics;
  add_all(text, queues, "delayqueue_leases_lost_total", "counter", "Deliveries that the consumer has lost.",
          [](const Queue& one) { return std::optional(one.leases_lost); });
  add_all(text, queues, "delayqueue_stale_verdicts_total", "counter", "Verdicts that came too late to count.",
          [](const Queue& one) { return std::optional(one.stats.stale); });
  add_all(text, queues, "delayqueue_unconfirmed_verdicts_total", "counter",
          "Verdicts that were not as durable as required within the timeout.",
          [](const Queue& one) { return std::optional(one.stats.unconfirmed); });
  add_all(text, queues, "delayqueue_connected", "gauge", "1: Redis answered the last request without an error.",
          [](const Queue& one) { return std::optional(one.stats.connected); });
}

}  // namespace

std::string DELAYQUEUE_ABI::prometheus_text(const ConsumerMetrics& metrics) {
  if (metrics.queues.empty()) return {};
  PrometheusText text;
  add_handlers(text, metrics.queues);
  add_leases(text, metrics.queues);
  text.begin("delayqueue_connects_total", "counter", "Connections that the consumer has made.");
  text.add("", metrics.stats.connects);
  text.begin("delayqueue_errors_total", "counter", "Connections of the consumer lost or refused, and error replies.");
  text.add("", metrics.stats.errors);
  return text.text();
}

std::string DELAYQUEUE_ABI::prometheus_text(const std::vector<ProducerMetrics>& metrics) {
  if (metrics.empty()) return {};
  PrometheusText text;
  text.begin("delayqueue_send_seconds", "histogram", "Duration of calls that send.");
  for (const ProducerMetrics& one : metrics) text.add(label_of(one.queue), one.send_time);
  add_all(text, metrics, "delayqueue_send_messages_total", "counter", "Messages in calls that succeeded.",
          [](const ProducerMetrics& one) { return std::optional(one.sent); });
  add_all(text, metrics, "delayqueue_send_failures_total", "counter", "Messages in calls that failed.",
          [](const ProducerMetrics& one) { return std::optional(one.failed); });
  add_all(text, metrics, "delayqueue_send_moved_total", "counter",
          "Messages sent to another partition than the first choice.",
          [](const ProducerMetrics& one) { return std::optional(one.moved); });
  return text.text();
}

std::string DELAYQUEUE_ABI::prometheus_text(const std::vector<QueueMetrics>& metrics) {
  if (metrics.empty()) return {};
  std::vector<ReadQueue> queues;
  for (const QueueMetrics& one : metrics) {
    if (one.counts) queues.push_back({one.queue, *one.counts, one.round_trip});
  }
  PrometheusText text;
  add_all(text, metrics, "delayqueue_up", "gauge", "1: the queue could be read; 0: it could not.",
          [](const QueueMetrics& one) { return std::optional(one.counts.has_value()); });
  add_counts(text, queues);
  add_ages(text, queues);
  add_limits(text, queues);
  add_all(text, queues, "delayqueue_redis_round_trip_seconds", "gauge", "Duration of the request that read the queue.",
          [](const ReadQueue& one) { return std::optional(one.round_trip); });
  return text.text();
}

}  // namespace delayqueue
