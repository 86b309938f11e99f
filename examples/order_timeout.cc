// Expires orders that are not paid in time.   order_timeout [URL] [orders.jsonl]
//
// A shop sends a message for every order, due when the time limit for payment ends, and cancels it when the order is
// paid. A consumer in the same process expires the orders whose messages are delivered. Some handlers fail once, some
// always, one hangs. A minute of the shop takes 0.1 s. At the end every order must have exactly one outcome: cancelled,
// handled or dead.

#include "command_line.h"
#include "orders.h"
#include "terminal.h"

#include <delayqueue/delayqueue.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

namespace {

using namespace std::chrono_literals;
using namespace delayqueue;
using Clock = std::chrono::system_clock;  // the embedded server uses the same clock

constexpr int kRetries = 3;

// ---- The shop, and the ledger with the outcome of each order -------------------------------------------------------

struct Entry {
  Order order{};
  std::string message{};           // its id
  Clock::time_point not_before{};  // due at this time, plus the duration of the send
  int deliveries = 0;
  double late_ms = 0;          // of the first delivery
  int handled = 0;             // the attempt that expired the order; 0: none
  std::optional<State> was{};  // the message's state when the order was paid
  bool dead = false;

  // Whether the message was cancelled while no delivery was running, so that none may follow.
  bool cancelled() const { return was && *was != State::unknown && *was != State::unack; }
};

class Shop {
 public:
  Shop(const std::string& url, std::vector<Order> orders);
  bool run();  // whether every order has exactly one outcome

 private:
  struct ShopEvent {
    Minutes at;
    Entry* entry;
    bool paid;  // false: ordered
  };

  void open();
  void place(const std::vector<Entry*>& entries);
  void pay(Entry& entry);
  Verdict expire(const Message& message);
  Verdict hang(const Message& message, const Entry& entry);
  Entry& delivered(const Message& message);
  void count(const Event& event);
  bool report();
  void find_dead();
  bool account(const ConsumerStats& worker);
  void check(Entry& entry);

  Minutes now() const { return opens_ + (std::chrono::steady_clock::now() - began_); }
  std::string moment() const;
  void note(const char* colour, const Entry& entry, const std::string& what);

  const std::string url_;
  const std::string queue_ = "order_timeout-" + std::to_string(getpid());  // not used by other processes
  Producer producer_{url_, queue_, {.retries = kRetries, .send_timeout = 30s}};
  Inspector inspector_{url_, queue_};
  Minutes opens_{};
  std::chrono::steady_clock::time_point began_;
  std::vector<ShopEvent> events_;  // sorted by time

  std::mutex mutex_;  // guards all below
  std::map<std::string, Entry> ledger_;
  std::vector<std::string> wrong_;
  std::map<std::string, int> reasons_;                     // of dead letters
  int ordered_ = 0, paid_ = 0, handled_ = 0, failed_ = 0;  // since the last report
};

Shop::Shop(const std::string& url, std::vector<Order> orders) : url_(url) {
  for (Order& order : orders) {
    const std::string id = order.id;
    if (!ledger_.try_emplace(id, Entry{std::move(order)}).second)
      throw std::runtime_error("the order " + id + " is in the file twice");
  }
  for (auto& [id, entry] : ledger_) {
    events_.push_back({entry.order.created, &entry, false});
    if (entry.order.paid) events_.push_back({*entry.order.paid, &entry, true});
  }
  std::sort(events_.begin(), events_.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  opens_ = Minutes(std::floor(events_.front().at.count()));
}

bool Shop::run() {
  const Counts before = inspector_.counts();  // throws if there is no Redis
  if (before.pending + before.ready + before.unack + before.retry + before.dead > 0)
    throw std::runtime_error("the queue " + queue_ + " is not empty");
  ConsumerOptions options;
  options.concurrency = 8;
  options.lease = 2s;
  options.processing_timeout = 3s;
  options.backoff = Backoff::exponential(500ms, 2s);
  options.on_event = [this](const Event& event) { count(event); };
  Consumer worker(
      url_, queue_, [this](const Message& message) { return expire(message); }, options);
  worker.start();
  open();
  const auto deadline = std::chrono::steady_clock::now() + 2min;
  while (report() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1s);
  const bool stopped = worker.stop();
  find_dead();
  const bool good = account(worker.metrics().stats);
  if (!stopped) print(kRed, "the worker did not stop in time");
  return good && stopped;
}

// Sends and cancels the messages, from the first order to the last payment.
void Shop::open() {
  print(kBold, format("%zu orders; one minute of the shop takes 0.1 s", ledger_.size()));
  print(kBold, "  time   shop   ordered   paid  expired  failed   waiting");
  began_ = std::chrono::steady_clock::now();
  Minutes next_report = opens_ + 1s;
  for (std::size_t next = 0; next < events_.size();) {
    std::this_thread::sleep_for(std::min(events_[next].at, next_report) - now());
    std::vector<Entry*> ordered, paid;
    for (; next < events_.size() && events_[next].at <= now(); ++next) {
      (events_[next].paid ? paid : ordered).push_back(events_[next].entry);
    }
    if (!ordered.empty()) place(ordered);
    for (Entry* entry : paid) pay(*entry);
    if (now() < next_report) continue;
    report();
    next_report = now() + 1s;
  }
}

// ---- The producer --------------------------------------------------------------------------------------------------

void Shop::place(const std::vector<Entry*>& entries) {
  std::vector<OutgoingMessage> messages;
  {
    const std::lock_guard lock(mutex_);
    for (Entry* entry : entries) {
      const auto delay = std::chrono::ceil<milliseconds>(entry->order.window);
      messages.push_back({entry->order.line, {.delay = delay}});
      entry->not_before = Clock::now() + delay;
    }
    ordered_ += static_cast<int>(entries.size());
  }
  const std::vector<Sent> sent = producer_.send_batch(messages);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < sent.size(); ++i) entries[i]->message = sent[i].id;
}

void Shop::pay(Entry& entry) {
  const State was = producer_.cancel(entry.message);
  {
    const std::lock_guard lock(mutex_);
    entry.was = was;
    ++paid_;
  }
  if (was == State::retry) note(kYellow, entry, "paid after one handler failed: no retry will follow");
  if (was == State::unack) note(kYellow, entry, "paid too late: its handler is running; to be refunded");
  if (was == State::unknown) note(kYellow, entry, "paid too late: expired already; to be refunded");
}

// ---- The consumer --------------------------------------------------------------------------------------------------

Verdict Shop::expire(const Message& message) {
  Entry& entry = delivered(message);
  const Order& order = entry.order;
  if (order.handler == "hangs once" && message.attempt() == 1) return hang(message, entry);
  std::this_thread::sleep_for(order.takes);
  if (order.handler == "fails once" && message.attempt() == 1) throw std::runtime_error(order.reason);
  if (order.handler == "always fails") return nack(order.reason);
  if (order.handler == "is refused") return reject(order.reason);
  if (message.lease_lost()) return nack("too slow");  // another delivery does the work
  const std::lock_guard lock(mutex_);
  if (entry.handled == 0) entry.handled = message.attempt();  // idempotent: only the first delivery counts
  return ack();
}

// A handler that waits for an answer that never arrives. After processing_timeout the consumer stops renewing the
// lease, and another delivery does the work. The verdict of this handler is stale then.
Verdict Shop::hang(const Message& message, const Entry& entry) {
  note(kYellow, entry, "its handler hangs");
  while (!message.lease_lost()) std::this_thread::sleep_for(20ms);
  note(kYellow, entry, "processing_timeout is over: its lease is no longer renewed");
  const auto handled = [&] {
    const std::lock_guard lock(mutex_);
    return entry.handled > 0;
  };
  for (int i = 0; i < 1500 && !handled(); ++i) std::this_thread::sleep_for(10ms);
  if (handled()) note(kYellow, entry, "was delivered again and handled");
  std::this_thread::sleep_for(500ms);
  note(kYellow, entry, "the first handler returns, with a stale verdict");
  return ack();
}

Entry& Shop::delivered(const Message& message) {
  const Clock::time_point at = Clock::now();
  const std::string id = nlohmann::json::parse(message.payload()).at("order");
  const std::lock_guard lock(mutex_);
  Entry& entry = ledger_.at(id);
  if (++entry.deliveries == 1) entry.late_ms = std::chrono::duration<double, std::milli>(at - entry.not_before).count();
  if (at < entry.not_before) wrong_.push_back(id + ": delivered early");
  if (entry.cancelled()) wrong_.push_back(id + ": delivered after it was cancelled");
  return entry;
}

void Shop::count(const Event& event) {
  std::vector<const Entry*> dead;
  {
    const std::lock_guard lock(mutex_);
    if (event.kind == EventKind::acked) handled_ += static_cast<int>(event.count);
    if (event.kind == EventKind::nacked) failed_ += static_cast<int>(event.count);
    if (event.kind != EventKind::dead_lettered) return;
    for (const auto& [id, entry] : ledger_) {
      if (std::find(event.ids.begin(), event.ids.end(), entry.message) != event.ids.end()) dead.push_back(&entry);
    }
  }
  for (const Entry* entry : dead) note(kRed, *entry, "dead letter: " + entry->order.reason);
}

// ---- Output --------------------------------------------------------------------------------------------------------

std::string Shop::moment() const {
  const int minute = static_cast<int>(now().count());
  return format("%4.1f s  %02d:%02d", Minutes(now() - opens_).count() / 10, minute / 60 % 24, minute % 60);
}

void Shop::note(const char* colour, const Entry& entry, const std::string& what) {
  print(colour, moment() + "  " + entry.order.id + " " + what);
}

// Prints a line. Returns whether messages other than dead letters are left in the queue.
bool Shop::report() {
  const Counts counts = inspector_.counts();
  const std::uint64_t waiting = counts.pending + counts.ready, working = counts.unack + counts.retry;
  const std::lock_guard lock(mutex_);
  std::string line = moment();
  for (const auto& [n, width] : {std::pair(ordered_, 9), {paid_, 7}, {handled_, 9}, {failed_, 8}}) {
    line += n == 0 ? format("%*s", width, "-") : format("%+*d", width, n);
  }
  line += format("%10d", static_cast<int>(waiting));
  if (waiting > 0) line += ' ' + std::string(std::min<std::uint64_t>((waiting + 4) / 5, 24), '#');
  print(kPlain, line);
  ordered_ = paid_ = handled_ = failed_ = 0;
  return waiting + working > 0;
}

// ---- The final check -----------------------------------------------------------------------------------------------

void Shop::find_dead() {
  ListOptions page{.limit = 1000};
  do {
    const MessagePage dead = inspector_.list(State::dead, page);
    const std::lock_guard lock(mutex_);
    for (const MessageInfo& info : dead) {
      ++reasons_[format("%d %s: ", info.deliveries, info.deliveries == 1 ? "delivery" : "deliveries") + info.reason];
      for (auto& [id, entry] : ledger_) entry.dead = entry.dead || entry.message == info.id;
    }
    page.cursor = dead.next;
  } while (!page.cursor.empty());
  QueueAdmin(url_, queue_).purge(State::dead);
}

void Shop::check(Entry& entry) {
  // Cancelled during a delivery, which failed then.
  const bool cancelled_in_flight = entry.was == State::unack && entry.handled == 0;
  const bool cancelled = entry.cancelled() || cancelled_in_flight;
  const int outcomes = (cancelled ? 1 : 0) + (entry.handled > 0 ? 1 : 0) + (entry.dead ? 1 : 0);
  if (outcomes != 1) wrong_.push_back(entry.order.id + (outcomes == 0 ? ": lost" : ": has more than one outcome"));
  if (entry.deliveries > kRetries + 1) wrong_.push_back(entry.order.id + ": delivered too often");
}

bool Shop::account(const ConsumerStats& worker) {
  const std::lock_guard lock(mutex_);
  int waiting = 0, failed_before = 0, first = 0, again = 0, dead = 0, refunds = 0;
  std::vector<double> late;
  for (auto& [id, entry] : ledger_) {
    check(entry);
    if (entry.deliveries > 0) late.push_back(entry.late_ms);
    if (entry.dead) ++dead;
    if (entry.handled == 1) ++first;
    if (entry.handled > 1) ++again;
    if (entry.was && entry.handled > 0) ++refunds;
    if (entry.was && entry.handled == 0) ++(entry.deliveries == 0 ? waiting : failed_before);
  }
  const auto row = [](const char* name, int n) { print(kPlain, format("  %-58s %6d", name, n)); };
  print(kBold, "\nwhat became of the orders");
  row("sent", static_cast<int>(ledger_.size()));
  row("cancelled: paid while the message was waiting", waiting);
  row("cancelled: paid after a delivery that failed", failed_before);
  row("handled at the first delivery", first);
  row("handled after retries", again);
  row("dead letters", dead);
  for (const auto& [reason, n] : reasons_) print(kPlain, format("    %dx ", n) + reason);
  row("paid too late: handled, to be refunded", refunds);
  row("verdicts that came too late and changed nothing", static_cast<int>(worker.stale));
  if (!late.empty()) {
    std::sort(late.begin(), late.end());
    print(kPlain, format("  first delivery after the due time, ms: min %.1f, median %.1f, max %.1f", late.front(),
                         late[late.size() / 2], late.back()));
  }
  for (const std::string& line : wrong_) print(kRed, "  wrong: " + line);
  if (wrong_.empty()) print(kGreen, "every order is accounted for");
  return wrong_.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv, "embedded:");
  const std::vector<std::string>& words = line.words;
  if (words.size() > 1 || (!words.empty() && words[0].rfind("-", 0) == 0)) {
    std::fputs("usage: order_timeout [URL] [orders.jsonl]\n  URL: as for send; default: embedded:\n", stderr);
    return 2;
  }
  const auto beside_this = std::filesystem::path(__FILE__).replace_filename("orders.jsonl").string();
  return run_main("order_timeout",
                  [&] { return Shop(line.url, read_orders(words.empty() ? beside_this : words[0])).run() ? 0 : 1; });
}
