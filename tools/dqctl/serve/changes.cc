#include "serve/changes.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "audit.h"
#include "id_outcomes.h"
#include "pages.h"
#include "row_error.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::Outcome;
using delayqueue::QueueAdmin;
using delayqueue::State;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestBulk{2};  // of one request; the client sends another one for the rest
constexpr std::size_t kPurgedAtOnce = 2000;
constexpr std::size_t kBulkPage = 500;  // messages
constexpr std::size_t kMostSampled = 5;

Filter filter_of(const ChangeRequest& request) {
  Filter filter;
  filter.reason = request.match;
  filter.older_than = request.older_than;
  return filter;
}

std::string detail_of(const ChangeRequest& request) {
  std::string detail;
  const auto add = [&](const std::string& name, const std::string& value) {
    detail += (detail.empty() ? "" : " ") + name + '=' + value;
  };
  if (request.action == Action::purge) add("state", delayqueue::to_string(request.state));
  if (request.action == Action::pause && !request.reason.empty()) add("reason", in_quotes(request.reason));
  if (request.span) add("for", span_text(*request.span));
  if (request.replace) add("replace", "true");
  if (request.match) add("reason", in_quotes(*request.match));
  if (request.older_than) add("older_than", span_text(*request.older_than));
  if (request.at_most > 0) add("at_most", std::to_string(request.at_most));
  if (request.when) add("due", request.when->at ? utc_text(*request.when->at) : "+" + span_text(request.when->delay));
  return detail;
}

// Walks on where the part before ended.
void continue_at(Pages& pages, const ChangeRequest& request) {
  if (!request.cursor) return;
  auto place = place_in(*request.cursor);
  if (!place) throw HttpError(400, "cursor: " + cut(in_quotes(*request.cursor), 60) + "; expected `next` of an answer");
  pages.continue_at(std::move(*place));
}

// Notes how far a part came. False: that was all.
bool is_left(Pages& pages, std::string& next) {
  const auto place = pages.place();
  if (place) next = text_of(*place);
  return place.has_value();
}

std::uint64_t waiting(const Counts& counts) { return counts.due + counts.ready + counts.retry; }

// Whether a purge can skip reading the messages.
bool is_without_reading(const ChangeRequest& request) {
  return !request.match && !(is_list(request.state) && request.older_than);
}

const char* done_text(Action action) {
  switch (action) {
    case Action::release:
      return "released";
    case Action::cancel:
      return "cancelled";
    case Action::reschedule:
      return "moved";
    default:
      return "redriven";
  }
}

// What the action is expected to do with the message.
IdOutcome expected(Action action, const std::optional<MessageInfo>& message) {
  if (!message) return {"unknown", Grade::unknown};
  const State state = message->state;
  IdOutcome good{std::string("would be ") + done_text(action), Grade::good};
  const bool in_list = state == State::ready || state == State::retry;
  switch (action) {
    case Action::cancel:
      return good;
    case Action::release:
      return in_list                ? IdOutcome{"is ready already", Grade::already}
             : state == State::dead ? IdOutcome{"dead: see redrive", Grade::refused}
             : message->held        ? IdOutcome{"held", Grade::refused}
                                    : good;
    case Action::reschedule:
      return state == State::dead || message->held ? IdOutcome{"refused: held, or dead", Grade::refused} : good;
    default:
      break;
  }
  if (state != State::dead) return {"not among the dead", Grade::unknown};
  return message->size ? good : IdOutcome{"its body is gone: would be removed", Grade::refused};
}

IdOutcome redrive_one(QueueAdmin& admin, const std::string& id, int retries) {
  delayqueue::RedriveOptions options;
  options.retries = retries;
  const Outcome outcome = admin.redrive({id}, options).front();
  return outcome == Outcome::done         ? IdOutcome{"redriven", Grade::good}
         : outcome == Outcome::no_payload ? IdOutcome{"its body is gone: removed", Grade::refused}
         : outcome == Outcome::key_taken  ? IdOutcome{"another message has its unique key", Grade::refused}
                                          : IdOutcome{"not among the dead", Grade::unknown};
}

const char* name_of(Grade grade) {
  return grade == Grade::good      ? "good"
         : grade == Grade::already ? "already"
         : grade == Grade::refused ? "refused"
                                   : "unknown";
}

Object outcome_object(const ChangeRequest& request, const std::string& queue, const std::string& id,
                      const std::optional<State>& state, const IdOutcome& outcome) {
  Object object;
  object.add("queue", queue).add("id", id).add("action", to_string(request.action)).add("dry_run", request.dry_run);
  if (state) object.add("state", delayqueue::to_string(*state));
  object.add("grade", name_of(outcome.grade)).add("outcome", outcome.text);
  return object.add("summary", to_string(request.action) + std::string(" ") + id + ": " + outcome.text);
}

}  // namespace

Object Changes::change_queue(const ChangeRequest& request, const std::string& queue, const ServedClient& client) {
  reads_.existing(queue);
  const bool is_pause = request.action == Action::pause || request.action == Action::resume;
  if (request.dry_run && !is_pause) return bulk_dry_run(request, queue);
  ServedChange change;
  const auto act = [&](ServedChange& made) {
    return is_pause ? pause(request, queue, made) : bulk(request, queue, made);
  };
  return request.dry_run ? act(change) : audited(request, queue, client, change, act);
}

Object Changes::change_message(const ChangeRequest& request, const std::string& queue, const std::string& id,
                               const ServedClient& client) {
  check_id(id);
  reads_.existing(queue);
  if (request.dry_run) return by_id_dry_run(request, queue, id);
  ServedChange change;
  change.id = id;
  return audited(request, queue, client, change, [&](ServedChange& made) { return by_id(request, queue, id, made); });
}

Object Changes::audited(const ChangeRequest& request, const std::string& queue, const ServedClient& client,
                        ServedChange change, const std::function<Object(ServedChange&)>& act) {
  change.at = std::chrono::system_clock::now();
  change.client = client;
  change.action = request.action;
  change.queue = queue;
  change.detail = detail_of(request);
  change.is_further_part = request.cursor.has_value();
  const auto running = begin(change);
  try {
    Object answer = act(change);
    finish(running, change);
    return answer;
  } catch (const delayqueue::ConnectionError& error) {
    change.error = error.what();
    change.unconfirmed = true;
    finish(running, change);
    throw;
  } catch (const std::exception& error) {
    change.error = error.what();
    finish(running, change);
    throw;
  }
}

// Adds the change to the actions of its queue, where it stays when this server has ended.
void Changes::record(const ServedChange& change) {
  if (!change.changed && !change.unconfirmed) return;
  delayqueue::Action action;
  action.who = change.who();
  if (change.action != Action::pause && change.action != Action::resume) action.messages = change.count;
  action.outcome = change.unconfirmed ? "unconfirmed" : change.error.empty() ? "done" : "partly";
  action.what = "dqctl serve: " + change_text(change);
  const std::string error = record_action(*clients_.admin(change.queue), action);
  if (error.empty()) return;
  std::fprintf(stderr, "dqctl serve: warning: the change of %s could not be recorded for dqctl actions: %s\n",
               in_quotes(change.queue).c_str(), printable(error).c_str());
}

Changes::Running Changes::begin(const ServedChange& change) {
  const std::lock_guard lock(running_mutex_);
  if (ended_) throw HttpError(503, "cannot begin: the server ends");
  return running_.insert(running_.end(), change);
}

void Changes::finish(Running running, const ServedChange& change) {
  record(change);
  if (!change.is_further_part || change.count > 0 || !change.error.empty()) audit_.add(change);
  const std::lock_guard lock(running_mutex_);
  running_.erase(running);
  finished_.notify_all();
}

void Changes::end(milliseconds limit) {
  std::unique_lock lock(running_mutex_);
  ended_ = true;
  if (finished_.wait_for(lock, limit, [this] { return running_.empty(); })) return;
  for (ServedChange change : running_) {
    change.error = "dqctl serve ended before the reply of Redis; it may be done nevertheless";
    audit_.add(change);
  }
}

Object Changes::pause_object(const ChangeRequest& request, const std::string& queue, const std::string& summary) {
  const auto inspector = clients_.inspector(queue);
  const Counts counts = inspector->counts();
  const auto pause = inspector->paused();
  Object object;
  object.add("queue", queue).add("action", to_string(request.action)).add("dry_run", request.dry_run);
  object.add("paused", pause.has_value()).add("until", pause ? pause->until : std::nullopt);
  object.add("why", pause ? std::optional(pause->reason) : std::nullopt).add("waiting", waiting(counts));
  object.add("by", pause && !pause->who.empty() ? std::optional(pause->who) : std::nullopt);
  object.add("since", pause ? pause->since : std::nullopt);
  return object.add("summary", summary);
}

Object Changes::pause(const ChangeRequest& request, const std::string& queue, ServedChange& change) {
  const bool wants_pause = request.action == Action::pause;
  const auto pause = clients_.inspector(queue)->paused();
  const std::string name = in_quotes(queue);
  if (wants_pause && pause && !request.replace) {
    throw HttpError(409, name + " is paused already" + (pause->reason.empty() ? "" : ": " + printable(pause->reason)) +
                             "; replace: true sets this pause instead");
  }
  if (request.dry_run) {
    const std::string how = (request.span ? " for " + span_text(*request.span) : std::string(" until it is resumed")) +
                            (request.reason.empty() ? ", without a reason" : ": " + printable(request.reason));
    const std::string would = wants_pause ? (pause ? "would replace the pause of " : "would pause ") + name + how
                              : pause     ? "would resume " + name
                                          : name + " is not paused";
    return pause_object(request, queue, would);
  }
  if (wants_pause) {
    delayqueue::PauseOptions options;
    options.duration = request.span;
    options.reason = request.reason;
    options.who = change.who();
    clients_.admin(queue)->pause(options);
    change.changed = true;
    return pause_object(request, queue,
                        name + " is paused: its consumers take nothing " +
                            (request.span ? "for " + span_text(*request.span) + ", or " : "") + "until it is resumed");
  }
  clients_.admin(queue)->resume();
  change.changed = pause.has_value();
  return pause_object(request, queue, name + (pause ? " is resumed" : " was not paused"));
}

Object Changes::bulk_dry_run(const ChangeRequest& request, const std::string& queue) {
  const auto inspector = clients_.inspector(queue);
  const Counts counts = inspector->counts();
  const std::uint64_t of = count_of(counts, request.state);
  const auto until = Clock::now() + kLongestBulk;
  const Filter filter = filter_of(request);
  Pages pages(*inspector, request.state, filter, counts, Pages::Payload::none);
  continue_at(pages, request);
  std::vector<MessageInfo> some;
  std::vector<MessageInfo> sample;
  std::uint64_t matching = 0;
  bool complete = false;
  std::string next;
  do {
    if (!pages.next(some)) break;
    matching += some.size();
    for (std::size_t i = 0; i < some.size() && sample.size() < kMostSampled; ++i) sample.push_back(std::move(some[i]));
    complete = !filter.any() && sample.size() >= std::min<std::uint64_t>(kMostSampled, of);
    if (complete) matching = of;
  } while (!complete && Clock::now() < until);
  complete = complete || (!is_left(pages, next) && !interrupted());
  add_payload_starts(*inspector, sample);
  std::vector<Object> shown;
  for (const MessageInfo& message : sample) shown.push_back(reads_.shown(message, "payload_start"));
  const char* state = delayqueue::to_string(request.state);
  const char* verb = to_string(request.action);
  Object object;
  object.add("queue", queue).add("action", verb).add("state", state).add("dry_run", true);
  object.add("matching", matching).add("of", of).add("complete", complete).add("examined", pages.examined());
  complete ? object.add_null("next") : object.add("next", next);
  object.add_null("done").add_null("left_alone").add("sample", shown).add_null("error");
  return object.add("summary", std::string("would ") + verb + (complete ? " " : " at least ") + count_text(matching) +
                                   " of " + counted(of, std::string(state) + " message") + " of " + in_quotes(queue));
}

Object Changes::bulk(const ChangeRequest& request, const std::string& queue, ServedChange& change) {
  const std::unique_lock lock(bulk_mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    throw HttpError(503, "cannot begin: another change of many messages runs; repeat it in seconds");
  const Counts counts = clients_.inspector(queue)->counts();
  BulkPart result;
  try {
    request.action == Action::redrive ? redrive(request, queue, counts, result) : purge(request, queue, counts, result);
  } catch (const delayqueue::ConnectionError& error) {
    if (result.done == 0) throw;
    result.error = std::string(error.what()) + "; the last of it may be done nevertheless";
    change.unconfirmed = true;
  } catch (const delayqueue::Error& error) {
    if (result.done == 0) throw;
    result.error = advised(error.what());
  }
  change.count = result.done;
  change.changed = result.done > 0;
  change.error = result.error;
  const char* state = delayqueue::to_string(request.state);
  const std::string verb = request.action == Action::redrive ? "redriven" : "purged";
  Object object;
  object.add("queue", queue).add("action", to_string(request.action)).add("state", state).add("dry_run", false);
  object.add_null("matching").add("of", count_of(counts, request.state)).add("complete", result.complete);
  object.add("examined", result.examined);
  result.next.empty() ? object.add_null("next") : object.add("next", result.next);
  object.add("done", result.done).add("left_alone", result.left_alone).add("sample", std::vector<Object>());
  result.error.empty() ? object.add_null("error") : object.add("error", printable(result.error));
  return object.add("summary", verb + ' ' + counted(result.done, std::string(state) + " message") + " of " +
                                   in_quotes(queue) + (result.complete ? "" : "; there are more"));
}

namespace {

// Changes the messages of pages until the time is over. `change` changes some of them, and returns how many it changed.
template <class Change>
void change_pages(Pages& pages, const ChangeRequest& request, BulkPart& result, const Change& change) {
  const auto until = Clock::now() + kLongestBulk;
  continue_at(pages, request);
  std::vector<MessageInfo> some;
  std::uint64_t left = request.at_most;
  do {
    if (!pages.next(some)) break;
    for (std::size_t at = 0; at < some.size() && left > 0 && !interrupted();) {
      Ids ids;
      for (; at < some.size() && ids.size() < std::min<std::uint64_t>(kRoundTrip, left); ++at)
        ids.push_back(some[at].id);
      result.examined = pages.examined();
      const std::uint64_t done = change(ids);
      result.done += done;
      result.left_alone += ids.size() - done;
      left -= ids.size();
    }
  } while (left > 0 && Clock::now() < until && !interrupted());
  result.examined = pages.examined();
  // After a signal the rest of the page is left: then no place is behind all that was done.
  result.complete = left == 0 || (!interrupted() && !is_left(pages, result.next));
}

}  // namespace

void Changes::redrive(const ChangeRequest& request, const std::string& queue, const Counts& counts, BulkPart& result) {
  const auto inspector = clients_.inspector(queue);
  const auto admin = clients_.admin(queue);
  delayqueue::RedriveOptions options;
  options.retries = request.retries;
  Pages pages(*inspector, State::dead, filter_of(request), counts, Pages::Payload::none, Pages::Use::remove, kBulkPage);
  change_pages(pages, request, result, [&](const Ids& ids) {
    const std::vector<Outcome> outcomes = admin->redrive(ids, options);
    return static_cast<std::uint64_t>(std::count(outcomes.begin(), outcomes.end(), Outcome::done));
  });
}

void Changes::purge(const ChangeRequest& request, const std::string& queue, const Counts& counts, BulkPart& result) {
  if (is_without_reading(request)) return purge_without_reading(request, queue, counts, result);
  const auto inspector = clients_.inspector(queue);
  const auto admin = clients_.admin(queue);
  Pages pages(*inspector, request.state, filter_of(request), counts, Pages::Payload::none, Pages::Use::remove,
              kBulkPage);
  change_pages(pages, request, result, [&](const Ids& ids) {
    const delayqueue::Purged purged = admin->purge_ids(request.state, ids);
    pages.add_purged(purged);
    return purged.messages;
  });
}

// Needs no cursor: it removes all that it reads.
void Changes::purge_without_reading(const ChangeRequest& request, const std::string& queue, const Counts& counts,
                                    BulkPart& result) {
  const auto admin = clients_.admin(queue);
  const auto until = Clock::now() + kLongestBulk;
  std::uint64_t left = std::min(request.at_most, count_of(counts, request.state));
  while (left > 0 && Clock::now() < until && !interrupted()) {
    delayqueue::PurgeOptions options;
    options.older_than = request.older_than;
    options.limit = std::min<std::uint64_t>(left, kPurgedAtOnce);
    const std::uint64_t purged = admin->purge(request.state, options);
    result.done += purged;
    result.examined += options.limit;
    left -= options.limit;
    // In the lists, ids without a message are passed over, not counted.
    if (!is_list(request.state) && purged < options.limit) left = 0;
  }
  result.complete = left == 0;
}

Object Changes::by_id_dry_run(const ChangeRequest& request, const std::string& queue, const std::string& id) {
  const auto found = clients_.inspector(queue)->find_all(id, 0).front();
  return outcome_object(request, queue, id, found ? found->state : State::unknown, expected(request.action, found));
}

Object Changes::by_id(const ChangeRequest& request, const std::string& queue, const std::string& id,
                      ServedChange& change) {
  const auto admin = clients_.admin(queue);
  const auto inspector = clients_.inspector(queue);
  const IdOutcome outcome = request.action == Action::release
                                ? release_ids(*admin, *inspector, {id}, delayqueue::HeldMessages::skip).front()
                            : request.action == Action::cancel     ? cancel_ids(*admin, {id}).front()
                            : request.action == Action::reschedule ? reschedule_ids(*admin, {id}, *request.when).front()
                                                                   : redrive_one(*admin, id, request.retries);
  change.count = outcome.grade == Grade::good ? 1 : 0;
  change.changed = change.count > 0;
  if (outcome.grade != Grade::good) change.detail += (change.detail.empty() ? "" : " ") + outcome.text;
  return outcome_object(request, queue, id, std::nullopt, outcome);
}

}  // namespace dqctl
