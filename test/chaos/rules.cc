#include "chaos/rules.h"

namespace chaos {
namespace {

constexpr Us kSameClock = 2'000;  // Redis reads the clock a moment before the script runs

constexpr Us kWholeSeconds = 1'002'000;

constexpr Us kLayoutRead = 10'000'000;  // after this every producer has read the number of partitions that was set

// Checks one message against every rule.
class Judge {
 public:
  Judge(const Ledger& ledger, const Message& message, const Remains& remains, bool durable, Verdicts& verdicts)
      : ledger_(ledger), message_(message), durable_(durable), verdicts_(verdicts) {
    const auto found = remains.dead.find(message.id);
    dead_ = found != remains.dead.end();
    deliveries_ = dead_ ? found->second : 0;
    rolled_back_ = was_rolled_back();
  }

  void judge() {
    count();
    if (message_.made() != nullptr) check_end();
    if (!message_.other_id.empty()) breach("made twice: with two ids");
    check_dead();
    check_early();
    check_holders();
    check_contents();
    check_partition();
    if (rolled_back_) return;
    check_kept();
    check_alone();
    check_deliveries();
    check_after_ack();
    check_receipts();
    check_after_cancel();
    check_repeated();
    check_found();
  }

 private:
  void breach(const std::string& rule) {
    std::vector<std::string> words{message_.token};
    if (!message_.id.empty() && message_.id != message_.token) words.push_back(message_.id);
    verdicts_.breaches.push_back({rule, message_.id + ' ' + to_string(message_.kind), std::move(words)});
  }

  // True if Redis may have forgotten a change of this message within a window. The change may then happen again.
  bool was_rolled_back() const {
    const auto touched = [&](Us from, Us to) { return ledger_.in_window(message_, from, to); };
    for (const auto* calls : {&message_.sends, &message_.cancels, &message_.reschedules}) {
      for (const Call& call : *calls) {
        if (touched(call.begin, call.latest)) return true;
      }
    }
    for (const Delivery& delivery : message_.deliveries) {
      if (touched(delivery.begin, std::max({delivery.begin, delivery.last_held, delivery.verdict_at}))) return true;
    }
    return std::any_of(message_.acked.begin(), message_.acked.end(),
                       [&](const Acked& acked) { return touched(acked.at, acked.at); });
  }

  void count() {
    Counts& counts = verdicts_.counts;
    if (!message_.kept) ++(message_.made() != nullptr ? counts.sent : counts.in_doubt);
    counts.delivered += message_.deliveries.size();
    if (!message_.acked.empty()) ++counts.acked;
    if (dead_) ++counts.dead;
    if (message_.may_be_cancelled() && message_.acked.empty() && !dead_) ++counts.cancelled;
    for (std::size_t i = 1; i < message_.deliveries.size(); ++i) {
      const std::string& before = message_.deliveries[i - 1].verdict;
      if (before != "nack" && before != "snooze" && before != "die" && !may_live_again()) ++counts.duplicates;
    }
  }

  // The message must be acked, dead or cancelled. Otherwise it is lost. If a repeated send made it again after its end,
  // an ack from before that send does not count.
  void check_end() {
    const Call& made = *message_.made();
    const Us since = made.created && !ledger_.mixed() ? made.begin : 0;  // a late Go worker may delete the second one
    const bool acked = std::any_of(message_.deliveries.begin(), message_.deliveries.end(), [&](const Delivery& one) {
      return one.verdict == "ack" && one.verdict_at >= since;
    });
    if (dead_ || message_.may_be_cancelled() || acked) return;
    if (!durable_ && ledger_.in_window(message_, made.latest, made.latest)) {
      ++verdicts_.counts.in_window;
      return;
    }
    if (ledger_.mixed() && !ends_acked(message_.kind)) {
      ++verdicts_.counts.given_up_in_go;
      return;
    }
    ++verdicts_.counts.lost;
    breach(ends_dead(message_.kind) ? "lost: no retries left, but no dead letter" : "lost: gone without an ack");
  }

  void check_contents() {
    const auto any = [&](bool Delivery::*other) {
      return std::any_of(message_.deliveries.begin(), message_.deliveries.end(),
                         [&](const Delivery& one) { return one.*other; });
    };
    if (any(&Delivery::other_headers)) breach("delivered with other headers than were sent");
    if (any(&Delivery::other_payload)) breach("delivered with another payload than was sent");
  }

  void check_dead() {
    if (!dead_) return;
    if (ends_acked(message_.kind)) breach("dead: with retries left");
    const bool spent = deliveries_ > message_.retries || message_.retries == 0;
    if (!spent && !message_.has_verdict("reject") && !ledger_.mixed()) breach("dead: before its retries were spent");
    if (!message_.acked.empty() && !rolled_back_ && !may_live_again()) breach("dead: after its ack");
  }

  // True if a send without an answer may have run after the message was finished, which makes a new message.
  bool may_live_again() const {
    Us done = 0;
    const auto sooner = [&done](Us at) { done = done == 0 ? at : std::min(done, at); };
    for (const Delivery& delivery : message_.deliveries) {
      if (delivery.verdict == "ack") sooner(delivery.verdict_at);
    }
    for (const Call& call : message_.cancels) sooner(call.begin);
    return done != 0 && message_.last_send() >= done;
  }

  // No delivery before the due time of any call that may have been the last to set it.
  void check_early() {
    for (const Delivery& delivery : message_.deliveries) {
      std::vector<Call> calls;
      for (const Call& call : message_.sends) {
        if (call.created || !is_repeated(call)) calls.push_back(call);  // others set no time
      }
      for (const Call& call : message_.reschedules) {
        if (call.answer.empty() || call.answer == "moved") calls.push_back(call);
      }
      Us settled = 0;  // calls that ended before this time are overruled by a later confirmed call
      for (const Call& call : calls) {
        const bool sure = (call.answer == "moved" || call.answer == "sent") && call.latest <= delivery.begin;
        if (sure && delivery.held && !rolled_back_) settled = std::max(settled, call.begin);
      }
      const bool due =
          calls.empty() || std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
            return call.latest >= settled && call.due <= delivery.begin + (delivery.go ? kWholeSeconds : kSameClock);
          });
      if (!due) return breach("early");
    }
  }

  // No process may find the lease held after another delivery has begun.
  void check_holders() {
    for (std::size_t i = 0; i < message_.deliveries.size(); ++i) {
      const Delivery& one = message_.deliveries[i];
      if (one.last_held == 0 || ledger_.in_window(message_, one.begin, one.last_held)) continue;
      for (std::size_t j = i + 1; j < message_.deliveries.size(); ++j) {
        const Delivery& other = message_.deliveries[j];
        if (other.held && other.begin <= one.last_held) return breach("two holders");
      }
    }
  }

  void check_deliveries() {
    if (may_live_again() || ledger_.mixed()) return;  // workers in Go count no attempts
    // A reschedule during the backoff of a nack allows one more delivery, because that retry is not spent.
    const auto moved = std::count_if(message_.reschedules.begin(), message_.reschedules.end(),
                                     [](const Call& call) { return call.answer.empty() || call.answer == "moved"; });
    std::map<int, int> by_attempt;
    for (const Delivery& delivery : message_.deliveries) {
      if (delivery.attempt > message_.retries + 1 + moved) return breach("more deliveries than its retries allow");
      if (++by_attempt[delivery.attempt] > 1 && message_.kind != Kind::snooze) {
        return breach("an attempt that began twice");
      }
    }
  }

  void check_after_ack() {
    if (message_.acked.empty() || may_live_again()) return;
    for (const Delivery& delivery : message_.deliveries) {
      if (delivery.held && delivery.begin > message_.acked.front().at)
        return breach("delivered after its ack was settled");
    }
  }

  // Only the ack of the last holder ends a message. No other ack may count while another delivery is under way.
  void check_receipts() {
    if (message_.may_be_cancelled() || may_live_again()) return;
    for (const Acked& acked : message_.acked) {
      for (const Delivery& one : message_.deliveries) {
        if (one.by != acked.by && one.held && is_under_way(one, acked)) return breach("acked while another held it");
      }
    }
  }

  // True if the delivery began after the acked one, and was not finished when the ack was settled.
  bool is_under_way(const Delivery& one, const Acked& acked) const {
    const bool done = one.verdict == "ack" && one.verdict_at <= acked.at;
    return one.begin <= acked.at && !done &&
           std::all_of(message_.deliveries.begin(), message_.deliveries.end(), [&](const Delivery& own) {
             return own.by != acked.by || own.verdict != "ack" || own.verdict_at > acked.at || own.begin < one.begin;
           });
  }

  void check_after_cancel() {
    for (const Call& call : message_.cancels) {
      const bool answered = !call.answer.empty() && call.answer != "refused" && call.answer != "unknown";
      if (!answered || may_live_again()) continue;
      const auto after = std::count_if(message_.deliveries.begin(), message_.deliveries.end(),
                                       [&](const Delivery& one) { return one.held && one.begin > call.latest; });
      if (after > (call.answer == "unack" ? 1 : 0)) return breach("delivered after its cancel");
    }
  }

  // True if the message may have been finished by this time: acked, or cancelled.
  bool may_be_finished(Us by) const {
    return std::any_of(message_.deliveries.begin(), message_.deliveries.end(),
                       [&](const Delivery& one) { return one.verdict == "ack" && one.verdict_at <= by; }) ||
           std::any_of(message_.cancels.begin(), message_.cancels.end(), [&](const Call& call) {
             return call.begin <= by && call.answer != "unknown" && call.answer != "refused";
           });
  }

  // The time of the first answer to a send; 0: none.
  Us first_acknowledged() const {
    const auto first = std::find_if(message_.sends.begin(), message_.sends.end(),
                                    [](const Call& call) { return call.answer == "sent"; });
    return first == message_.sends.end() ? 0 : first->latest;
  }

  // Whether the call was answered, and an earlier one before it.
  bool is_repeated(const Call& send) const { return send.answer == "sent" && send.begin > first_acknowledged(); }

  // A send that is repeated makes no second message while the first one is there, and makes one after its end.
  void check_repeated() {
    if (ledger_.mixed()) return;  // a Go worker deletes messages
    for (const Call& call : message_.sends) {
      if (!is_repeated(call)) continue;
      if (call.created && !may_be_finished(call.latest)) return breach("made twice: with the same id");
      const auto other = [&](const Call& send) { return &send != &call && send.latest >= first_acked(); };
      const bool may_exist = first_acked() == 0 || first_acked() >= call.begin ||
                             std::any_of(message_.sends.begin(), message_.sends.end(), other);
      if (!call.created && !may_exist && message_.cancels.empty()) return breach("a repeated send made no message");
    }
  }

  Us first_acked() const { return message_.acked.empty() ? 0 : message_.acked.front().at; }

  // A call by id finds a message that is there.
  void check_found() {
    const Us first = first_acknowledged();
    if (ledger_.mixed() || first == 0) return;
    for (const auto* calls : {&message_.cancels, &message_.reschedules}) {
      for (const Call& call : *calls) {
        if (call.answer != "unknown" || call.begin < first || may_be_finished(call.latest)) continue;
        return breach("not found by its id");
      }
    }
  }

  // The message whose key kept this one out was there: not settled before the call began.
  void check_kept() {
    if (!message_.kept || ledger_.mixed()) return;
    const Kept& kept = *message_.kept;
    const Message* const by = ledger_.by_id(kept.by);
    if (by == nullptr) return breach("kept out by a message that was never sent");
    if (by->key != message_.key) return breach("kept out by a message with another key");
    if (ledger_.in_window(*by, 0, kept.latest)) return;  // its end may have been forgotten
    const Us last = by->last_send();                     // a send in doubt may have created it again
    const bool acked = std::any_of(by->acked.begin(), by->acked.end(),
                                   [&](const Acked& one) { return one.at < kept.begin && last < one.at; });
    const bool cancelled = std::any_of(by->cancels.begin(), by->cancels.end(), [&](const Call& call) {
      const bool answered = !call.answer.empty() && call.answer != "refused" && call.answer != "unknown";
      return answered && call.latest < kept.begin && last < call.begin;
    });
    if (acked || cancelled) breach("swallowed: kept out by a message that had ended");
  }

  // Whether another message with the key was there, from before until after the call that created this one.
  void check_alone() {
    const Call* const made = message_.made();
    const bool is_plain = made != nullptr && message_.sends.size() == 1 && made->created;
    if (message_.key.empty() || !is_plain || ledger_.mixed()) return;
    for (const Message* const other : ledger_.with_key(message_.key)) {
      if (other == &message_ || !ends_acked(other->kind) || !other->cancels.empty()) continue;
      if (other->sends.size() != 1 || !other->sends.front().created) continue;
      if (other->sends.front().latest >= made->begin) continue;
      if (ledger_.in_window(*other, 0, made->latest)) continue;
      const bool may_be_acked =
          std::any_of(other->deliveries.begin(), other->deliveries.end(),
                      [&](const Delivery& one) { return one.verdict == "ack" && one.verdict_at <= made->latest; });
      if (!may_be_acked) return breach("two with one key: " + other->id);
    }
  }

  // After the number of partitions was lowered, the upper ones get no new messages.
  void check_partition() {
    if (ledger_.settings().empty() || message_.sends.empty()) return;
    const Setting& last = ledger_.settings().back();
    const bool late = message_.sends.front().begin > last.at + kLayoutRead;
    if (late && message_.partition() >= last.partitions) breach("sent to a partition that gets no more messages");
  }

  const Ledger& ledger_;
  const Message& message_;
  const bool durable_;
  Verdicts& verdicts_;
  bool dead_ = false;
  int deliveries_ = 0;
  bool rolled_back_ = false;
};

}  // namespace

Verdicts judge(const Ledger& ledger, const Remains& remains, bool durable) {
  Verdicts verdicts;
  for (const Message& message : ledger.messages()) Judge(ledger, message, remains, durable, verdicts).judge();
  for (const std::string& stray : remains.strays) verdicts.breaches.push_back({"left over", stray, {}});
  for (const auto& [id, deliveries] : remains.dead) {
    if (ledger.by_id(id) == nullptr) verdicts.breaches.push_back({"dead: a message that was never sent", id, {}});
  }
  return verdicts;
}

}  // namespace chaos
