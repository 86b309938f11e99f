#include "id_outcomes.h"

namespace dqctl {
namespace {

using delayqueue::Outcome;
using delayqueue::QueueAdmin;
using delayqueue::State;

IdOutcome no_such_message() { return {"unknown", Grade::unknown}; }

}  // namespace

IdOutcomes cancel_ids(QueueAdmin& admin, const Ids& ids) {
  return outcomes_of(admin.cancel(ids), [](State was) {
    if (was == State::unknown) return no_such_message();
    return IdOutcome{was == State::unack ? "cancelled, but held: gone unless that delivery succeeds"
                                         : std::string("cancelled, was ") + delayqueue::to_string(was),
                     Grade::good};
  });
}

IdOutcomes reschedule_ids(QueueAdmin& admin, const Ids& ids, const When& when) {
  delayqueue::RescheduleOptions options;
  options.delay = when.delay;
  options.at = when.at;
  return outcomes_of(admin.reschedule(ids, options), [](Outcome outcome) {
    if (outcome == Outcome::done) return IdOutcome{"moved", Grade::good};
    const bool refused = outcome == Outcome::held || outcome == Outcome::wrong_state;
    return refused ? IdOutcome{"refused: held, or dead", Grade::refused} : no_such_message();
  });
}

IdOutcomes release_ids(QueueAdmin& admin, delayqueue::Inspector& inspector, const Ids& ids,
                       delayqueue::HeldMessages held) {
  constexpr const char* kHeld = "held: a consumer has it; dqctl release --force takes it away";
  IdOutcomes outcomes = outcomes_of(admin.release(ids, held), [](Outcome outcome) {
    if (outcome == Outcome::done) return IdOutcome{"released", Grade::good};
    return outcome == Outcome::held ? IdOutcome{kHeld, Grade::refused} : no_such_message();
  });
  for (std::size_t i = 0; i < ids.size(); ++i) {  // one more request finds messages that are dead or ready already
    if (outcomes[i].grade != Grade::unknown) continue;
    const auto found = inspector.find_all(ids[i], 0).front();
    if (!found) continue;
    if (found->state == State::dead) outcomes[i] = {"dead: see dqctl redrive", Grade::refused};
    if (found->state == State::ready || found->state == State::retry) {
      outcomes[i] = {"is ready already", Grade::already};
    }
  }
  return outcomes;
}

}  // namespace dqctl
