
#include <signal.h>

#include <queue>

#include "chaos/mix.h"
#include "chaos/worker.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using delayqueue::milliseconds;
using std::chrono::steady_clock;

volatile std::sig_atomic_t stopping = 0;

// A call that follows a send.
struct Deed {
  std::int64_t at_us;
  std::function<void()> act;

  bool operator>(const Deed& other) const { return at_us > other.at_us; }
};

class Sender {
 public:
  Sender(const Arguments& arguments, const Journal& journal)
      : journal_(journal),
        random_(static_cast<std::uint64_t>(arguments.number("seed"))),
        lease_ms_(arguments.number("lease")),
        crashes_(arguments.number("crashes") == 1),
        partitions_(arguments.number("partitions") == 1),
        headers_(arguments.number("headers") == 1),
        keys_(arguments.number("keys") == 1),
        pause_us_(1e6 / static_cast<double>(arguments.number("rate"))),
        producer_(client_of(arguments), arguments.text("queue"), options_of(arguments, journal)),
        other_(client_of(arguments), arguments.text("queue"), options_of(arguments, journal)) {}

  void run() {
    while (stopping == 0) {
      if (one_in(random_, 40)) {
        send_batch(static_cast<std::size_t>(between(random_, 2, 40)));
      } else {
        send_one();
      }
      do_deeds();
    }
    journal_.line("stopped");
  }

 private:
  static delayqueue::ProducerOptions options_of(const Arguments& arguments, const Journal& journal) {
    delayqueue::ProducerOptions options;
    if (arguments.number("replicas") > 0) options.durability = delayqueue::Durability::replicas(1);
    options.logger = [&journal](const delayqueue::LogEntry& entry) {
      journal.line("log " + std::to_string(static_cast<int>(entry.severity)) + ' ' + entry.line);
    };
    return options;
  }

  // Writes the line "sending" before the first try. With a delay, the message is due no earlier than the delay after
  // now.
  delayqueue::SendOptions log_sending(const Order& order) {
    const std::int64_t now = now_us();
    delayqueue::SendOptions options;
    std::int64_t due = now + order.delay_ms * 1000;
    if (order.absolute) {
      options.at = std::chrono::system_clock::time_point(std::chrono::microseconds(due));
    } else {
      options.delay = milliseconds(order.delay_ms);
    }
    options.retries = order.retries;
    if (order.ttl_ms > 0) options.ttl = milliseconds(order.ttl_ms);
    if (order.own_id) options.id = order.task.token;
    options.headers = headers_of(order.task.token, headers_);
    options.unique.key = order.key;
    if (!order.key.empty()) journal_.line_at(now, "keyed " + order.task.token + ' ' + order.key);
    journal_.line_at(now, "sending " + order.task.token + ' ' + std::to_string(due) + ' ' +
                              std::to_string(order.retries) + ' ' + to_string(order.task.kind));
    return options;
  }

  // With partitions, half of the messages have ids of the library, and some are due so late that the number of
  // partitions changes meanwhile.
  Order draw_order() {
    Order order = draw(random_, now_us() / 1000, lease_ms_, crashes_);
    if (!keys_) order.key.clear();
    if (!partitions_) return order;
    order.own_id = one_in(random_, 2);
    if (one_in(random_, 8)) order.delay_ms = between(random_, 5'000, 12'000);
    return order;
  }

  void send_one() {
    const Order order = draw_order();
    const delayqueue::SendOptions options = log_sending(order);
    note_sent(order, options, send_until_acknowledged(producer_, order, options));
    rest(1);
  }

  delayqueue::Sent send_until_acknowledged(delayqueue::Producer& producer, const Order& order,
                                           delayqueue::SendOptions options) {
    const std::string payload = payload_of(order.task);
    for (;;) {
      try {
        const delayqueue::Sent sent = producer.send(payload, options);
        log_sent(order, sent);
        return sent;
      } catch (const delayqueue::ConnectionError& e) {
        options.id = e.ids().at(0);
        journal_.line("doubt " + order.task.token + ' ' + options.id + ' ' + e.what());
      } catch (const delayqueue::ReplyError& e) {
        journal_.line("refused " + order.task.token + ' ' + e.what());
      }
      pause_after_failure();
      journal_.line("again " + order.task.token);
    }
  }

  // A refused batch may have been sent in part. Own ids prevent a second copy when it is sent again; without them, it
  // is not sent again.
  void send_batch(std::size_t count) {
    const bool own_ids = !partitions_ || one_in(random_, 2);
    std::vector<Order> orders;
    std::vector<delayqueue::OutgoingMessage> messages;
    for (std::size_t i = 0; i < count; ++i) {
      orders.push_back(draw_order());
      orders.back().own_id = own_ids;
      messages.push_back({payload_of(orders.back().task), log_sending(orders.back())});
    }
    for (;;) {
      try {
        const auto sent = producer_.send_batch(messages);
        for (std::size_t i = 0; i < count; ++i) {
          log_sent(orders[i], sent.at(i));
          note_sent(orders[i], messages[i].options, sent[i]);
        }
        break;
      } catch (const delayqueue::ConnectionError& e) {
        for (std::size_t i = 0; i < count; ++i) {
          messages[i].options.id = e.ids().at(i);
          journal_.line("doubt " + orders[i].task.token + ' ' + e.ids().at(i) + ' ' + e.what());
        }
      } catch (const delayqueue::ReplyError& e) {
        for (std::size_t i = 0; i < count; ++i) journal_.line("refused " + orders[i].task.token + ' ' + e.what());
        if (messages.front().options.id.empty()) break;
      }
      pause_after_failure();
      for (const Order& order : orders) journal_.line("again " + order.task.token);
    }
    rest(count);
  }

  void log_sent(const Order& order, const delayqueue::Sent& sent) {
    if (sent.result == delayqueue::SendResult::kept) {
      journal_.line("kept " + order.task.token + ' ' + sent.id);
      return;
    }
    journal_.line("sent " + order.task.token + ' ' + sent.id + (sent.created() ? " 1" : " 0"));
  }

  // With partitions, some sends with own ids are repeated.
  void note_sent(const Order& order, const delayqueue::SendOptions& options, const delayqueue::Sent& sent) {
    const std::string& id = sent.id;
    if (sent.result == delayqueue::SendResult::kept) return;
    if (order.cancel_after_ms) later(*order.cancel_after_ms, [this, id] { cancel(id); });
    if (order.reschedule_after_ms) {
      later(*order.reschedule_after_ms, [this, id, by_ms = order.reschedule_by_ms] { reschedule(id, by_ms); });
    }
    if (!partitions_ || !order.own_id || order.cancel_after_ms || order.reschedule_after_ms) return;
    if (!one_in(random_, 4)) return;
    later(between(random_, 0, 3'000), [this, order, options] {
      journal_.line("again " + order.task.token);
      send_until_acknowledged(for_deeds(), order, options);
    });
  }

  void later(std::int64_t after_ms, std::function<void()> act) {
    deeds_.push({now_us() + after_ms * 1000, std::move(act)});
  }

  // With partitions another Producer, which may not have read the same layout yet.
  delayqueue::Producer& for_deeds() { return partitions_ ? other_ : producer_; }

  void do_deeds() {
    while (!deeds_.empty() && deeds_.top().at_us <= now_us()) {
      const Deed deed = deeds_.top();
      deeds_.pop();
      deed.act();
    }
  }

  void cancel(const std::string& id) {
    until_answered("cancel", id, [&] { return std::string(to_string(for_deeds().cancel(id))); });
  }

  void reschedule(const std::string& id, std::int64_t by_ms) {
    const std::int64_t due = now_us() + by_ms * 1000;
    until_answered("reschedule", id + ' ' + std::to_string(due), [&] {
      const auto moved = for_deeds().reschedule(id, {milliseconds(by_ms), {}});
      return std::string(moved == delayqueue::Outcome::done      ? "moved"
                         : moved == delayqueue::Outcome::unknown ? "unknown"
                                                                 : "refused");
    });
  }

  void until_answered(const std::string& deed, const std::string& whom, const std::function<std::string()>& call) {
    for (;;) {
      journal_.line(deed + "_begin " + whom);
      try {
        const std::string answer = call();
        journal_.line(deed + "_answer " + whom + ' ' + answer);
        return;
      } catch (const delayqueue::ConnectionError& e) {
        journal_.line(deed + "_doubt " + whom + ' ' + e.what());
      } catch (const delayqueue::ReplyError& e) {
        journal_.line(deed + "_refused " + whom + ' ' + e.what());
      }
      pause_after_failure();
    }
  }

  void rest(std::size_t messages) {
    const double us = std::exponential_distribution<double>(1 / (pause_us_ * static_cast<double>(messages)))(random_);
    const auto end = steady_clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(us));
    while (stopping == 0 && steady_clock::now() < end) {
      std::this_thread::sleep_for(std::min<steady_clock::duration>(20ms, end - steady_clock::now()));
      do_deeds();
    }
  }

  void pause_after_failure() { std::this_thread::sleep_for(milliseconds(between(random_, 5, 50))); }

  const Journal& journal_;
  Random random_;
  const std::int64_t lease_ms_;
  const bool crashes_;
  const bool partitions_;  // of the queue: it gets several
  const bool headers_;     // some messages have some
  const bool keys_;        // the same
  const double pause_us_;
  delayqueue::Producer producer_;
  delayqueue::Producer other_;  // connects with its first call
  std::priority_queue<Deed, std::vector<Deed>, std::greater<>> deeds_;
};

}  // namespace

int produce(const Arguments& arguments) {
  struct sigaction action {};
  action.sa_handler = [](int) { stopping = 1; };
  ::sigaction(SIGTERM, &action, nullptr);

  const Journal journal(arguments.text("journal"));
  Sender(arguments, journal).run();
  return 0;
}

}  // namespace chaos
