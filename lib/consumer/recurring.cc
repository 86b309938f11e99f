#include "consumer/recurring.h"

#include "redis/escaped.h"

#include <algorithm>
#include <utility>

namespace delayqueue {

Recurring::Recurring(const ServedPartition& partition)
    : partition_(partition), advancer_([this](const std::string& name, const std::string& why) {
        partition_.log(Severity::warning,
                       "the schedule \"" + redis::escaped(name) + "\" stands still here: " + redis::escaped(why));
      }) {}

void Recurring::leave() {
  calls_.clear();
  undecided_.reset();
  names_.clear();
  paused_ = false;
  decides_ = true;
  look_again();
}

void Recurring::add_first_look(RoundTrip& round_trip, milliseconds poll_interval) {
  advancer_.restart();
  look(round_trip, poll_interval);
}

void Recurring::add_calls(RoundTrip& round_trip) {
  for (const Call& call : std::exchange(calls_, {})) {
    round_trip.expect(partition_.moves.advance(round_trip.pipeline(), call.planned->call),
                      [this, call](const auto& answer) { finish_call(*call.planned, answer); });
  }
}

void Recurring::add(RoundTrip& round_trip, milliseconds poll_interval) {
  const Clock::time_point now = Clock::now();
  if (!names_.empty()) read_some(round_trip);
  if (now >= sample_due_ && !is_sampling_) sample(round_trip);
  if (now >= look_due_ && !is_looking_) look(round_trip, poll_interval);
}

void Recurring::taken(const std::vector<InFlightPtr>& deliveries) {
  const bool any = std::any_of(deliveries.begin(), deliveries.end(), [](const InFlightPtr& delivery) {
    return store::may_be_occurrence(delivery->message.id());
  });
  if (any && !is_looking_) look_due_ = std::max(retry_at_, Clock::time_point());
}

void Recurring::look(RoundTrip& round_trip, milliseconds poll_interval) {
  is_looking_ = true;
  look_due_ = Clock::time_point::max();
  round_trip.expect(
      partition_.moves.due_schedules(round_trip.pipeline(), schedules::Advancer::kMostInLook, advancer_.offset()),
      [this, poll_interval](const auto& answer) {
        is_looking_ = false;
        finish_look(answer, poll_interval);
      },
      [this] {
        is_looking_ = false;
        look_again();
      });
}

void Recurring::finish_look(const store::Answer<store::ReadSchedules>& answer, milliseconds poll_interval) {
  const Clock::time_point now = Clock::now();
  store::ReadSchedules found;
  try {
    found = answer.get();
  } catch (const ReplyError& e) {
    exists_ = paused_ = false;  // the next sample looks again
    return failed("read", e.what());
  }
  exists_ = found.paused || found.next || !found.schedules.empty();
  const bool decides = std::exchange(decides_, false) || (paused_ && !found.paused);
  paused_ = found.paused;
  if (!exists_) return;
  const schedules::Advancer::Plan plan = advancer_.plan(found);
  add(plan.calls, decides);
  look_due_ = std::max(plan.look_again ? now : now + poll_interval, retry_at_);
  if (paused_ && found.next) look_due_ = std::min<Clock::time_point>(look_due_, now + *found.next);
}

void Recurring::add(const std::vector<schedules::PlannedAdvancePtr>& calls, bool decides) {
  if (calls.empty()) return;
  const auto undecided = decides ? std::make_shared<const bool>(true) : nullptr;
  if (decides) undecided_ = undecided;
  for (const schedules::PlannedAdvancePtr& planned : calls) calls_.push_back({planned, undecided});
}

void Recurring::finish_call(const schedules::PlannedAdvance& planned, const store::Answer<store::Advanced>& answer) {
  try {
    answer.get();
    has_failed_ = false;
  } catch (const ReplyError& e) {
    retry_at_ = Clock::now() + std::chrono::seconds(1);
    look_due_ = std::max(look_due_, retry_at_);
    failed("store the next message of \"" + redis::escaped(planned.name) + "\" of", e.what());
  }
}

// Finds schedules that a user has just set, and those whose slots were lost.
void Recurring::sample(RoundTrip& round_trip) {
  is_sampling_ = true;
  sample_due_ = Clock::now() + kSeldom;
  advancer_.restart();
  round_trip.expect(
      partition_.moves.sample_schedules(round_trip.pipeline()),
      [this](const auto& answer) {
        is_sampling_ = false;
        try {
          names_ = answer.get();
        } catch (const ReplyError& e) {
          return failed("read", e.what());
        }
        if (names_.empty()) return;
        if (!exists_ && !is_looking_) look_due_ = {};
        const auto is_long = [](const std::string& name) { return name.size() > store::kLongestScheduleName; };
        names_.erase(std::remove_if(names_.begin(), names_.end(), is_long), names_.end());
      },
      [this] { is_sampling_ = false; });
}

void Recurring::read_some(RoundTrip& round_trip) {
  round_trip.expect(partition_.moves.read_schedules(round_trip.pipeline(), std::exchange(names_, {})),
                    [this](const auto& answer) {
                      try {
                        add(advancer_.repair(answer.get()), false);
                      } catch (const ReplyError& e) {
                        failed("read", e.what());
                      }
                    });
}

void Recurring::failed(const std::string& what, const std::string& why) {
  if (std::exchange(has_failed_, true)) return;
  partition_.log(Severity::warning, "cannot " + what + " the schedules of this queue: " + why +
                                        "; other messages are delivered all the same");
}

}  // namespace delayqueue
