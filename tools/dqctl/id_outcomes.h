// What became of messages that were changed by their ids, in the words of dqctl.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/queue_admin.h>

#include <string>
#include <vector>

#include "acting.h"
#include "parse.h"

namespace dqctl {

struct IdOutcome {
  std::string text;
  Grade grade;
};

using Ids = std::vector<std::string>;
using IdOutcomes = std::vector<IdOutcome>;  // in the order of the ids

// One outcome for each answer. meaning: returns the IdOutcome of an answer.
template <class Answer, class Meaning>
IdOutcomes outcomes_of(const std::vector<Answer>& answers, Meaning meaning) {
  IdOutcomes out;
  out.reserve(answers.size());
  for (const Answer answer : answers) out.push_back(meaning(answer));
  return out;
}

IdOutcomes cancel_ids(delayqueue::QueueAdmin& admin, const Ids& ids);
IdOutcomes reschedule_ids(delayqueue::QueueAdmin& admin, const Ids& ids, const When& when);

// One more request for each message that was not released tells why.
IdOutcomes release_ids(delayqueue::QueueAdmin& admin, delayqueue::Inspector& inspector, const Ids& ids,
                       delayqueue::HeldMessages held);

}  // namespace dqctl
