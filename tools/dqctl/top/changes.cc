#include "top/changes.h"

#include <delayqueue/error.h>

#include "lines.h"
#include "output/text.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::Outcome;
using delayqueue::QueueAdmin;
using delayqueue::State;
using ChangeKind = TopChange::Kind;

constexpr std::size_t kRedriveStep = 200;

struct ChangeResult {
  bool changed = false;
  std::string text{};  // behind the name of the queue, or the id
};

const char* verb_of(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::pause:
      return "pause";
    case ChangeKind::resume:
      return "resume";
    case ChangeKind::redrive_all:
    case ChangeKind::redrive:
      return "redrive";
    case ChangeKind::release:
      return "release";
    case ChangeKind::bury:
      break;
  }
  return "bury";
}

std::string what_of(const TopChange& change) {
  return std::string("dqctl top: ") + verb_of(change.kind) + ' ' + in_quotes(change.queue) +
         (change.id.empty() ? "" : ' ' + change.id) + (change.kind == ChangeKind::redrive_all ? " --all" : "");
}

// Returns a note if the change could not be recorded.
std::string record_if_requested(Context& context, const Change& change, const std::string& outcome,
                                const std::string& what) {
  if (!context.audits()) return "";
  const std::string error = record_change(context, change, outcome, what);
  return error.empty() ? "" : "; not recorded: " + printable(error);
}

ChangeResult pause_queue(QueueAdmin& admin) {
  delayqueue::PauseOptions options;
  options.reason = "by dqctl top";
  options.who = operator_name();
  admin.pause(options);
  return {true, " is paused: its consumers take nothing until it is resumed"};
}

ChangeResult redrive_one(QueueAdmin& admin, const std::string& id) {
  const Outcome outcome = admin.redrive({id}).front();
  return outcome == Outcome::done         ? ChangeResult{true, " is ready again"}
         : outcome == Outcome::no_payload ? ChangeResult{true, " had lost its body: removed"}
         : outcome == Outcome::key_taken  ? ChangeResult{false, " is not redriven: another message has its unique key"}
                                          : ChangeResult{false, " is no dead letter any more"};
}

ChangeResult release_one(QueueAdmin& admin, const std::string& id) {
  const Outcome outcome = admin.release({id}).front();
  return outcome == Outcome::done   ? ChangeResult{true, " is ready"}
         : outcome == Outcome::held ? ChangeResult{false, " is not released: a consumer holds it"}
                                    : ChangeResult{false, " is not released: it does not wait any more"};
}

ChangeResult bury_one(QueueAdmin& admin, const std::string& id) {
  delayqueue::BuryOptions options;
  options.reason = "buried with dqctl top";
  const Outcome outcome = admin.bury({id}, options).front();
  return outcome == Outcome::done      ? ChangeResult{true, " is a dead letter"}
         : outcome == Outcome::already ? ChangeResult{false, " was a dead letter already"}
         : outcome == Outcome::held    ? ChangeResult{false, " is not buried: a consumer holds it"}
                                       : ChangeResult{false, " is not buried: it is gone"};
}

ChangeResult result_of(QueueAdmin& admin, const TopChange& change) {
  switch (change.kind) {
    case ChangeKind::pause:
      return pause_queue(admin);
    case ChangeKind::resume:
      admin.resume();
      return {true, " is resumed"};
    case ChangeKind::redrive:
      return redrive_one(admin, change.id);
    case ChangeKind::release:
      return release_one(admin, change.id);
    case ChangeKind::bury:
      return bury_one(admin, change.id);
    case ChangeKind::redrive_all:
      break;
  }
  return {};
}

}  // namespace

std::string question_about(const TopChange& change, std::uint64_t dead) {
  const std::string queue = in_quotes(change.queue);
  switch (change.kind) {
    case ChangeKind::pause:
      return "Pause " + queue + "? Its consumers take nothing then. (y/n)";
    case ChangeKind::resume:
      return "Resume " + queue + "? (y/n)";
    case ChangeKind::redrive_all:
      return "Redrive " + counted(dead, "dead letter") + " of " + queue + "? (y/n)";
    case ChangeKind::redrive:
      return "Redrive " + change.id + ", a dead letter? (y/n)";
    case ChangeKind::release:
      return "Release " + change.id + ", to deliver it now? (y/n)";
    case ChangeKind::bury:
      break;
  }
  return "Bury " + change.id + ", as a dead letter? (y/n)";
}

std::string refusal_of(ChangeKind kind, const MessageInfo& message) {
  if (!is_stored_id(message.id)) return "This id is no UUID: only dqctl doctor and purge --all can remove it";
  const bool dead = message.state == State::dead;
  const bool waits = message.state == State::pending || message.state == State::unack;
  if (kind == ChangeKind::redrive && !dead) return "Only a dead letter can be redriven";
  if (kind == ChangeKind::bury && dead) return "It is a dead letter already";
  if (kind == ChangeKind::release && !waits) return "Only a message in pending, or in a backoff, can be released";
  if (!dead && message.held) return std::string("A consumer holds it: see dqctl ") + verb_of(kind) + " --force";
  return "";
}

std::string make_change(Context& context, const TopChange& change) {
  const bool of_queue = change.id.empty();
  const std::string subject = of_queue ? in_quotes(change.queue) : change.id;
  try {
    const ChangeResult result = result_of(context.admin(change.queue), change);
    if (!result.changed) return subject + result.text;
    const std::optional<std::uint64_t> messages = of_queue ? std::nullopt : std::optional<std::uint64_t>(1);
    return subject + result.text + record_if_requested(context, {change.queue, messages}, "done", what_of(change));
  } catch (const delayqueue::Error& error) {
    return "cannot " + std::string(verb_of(change.kind)) + ' ' + subject + ": " + printable(error.what());
  }
}

RedriveRun::RedriveRun(Context& context, const std::string& queue)
    : context_(context),
      queue_(queue),
      inspector_(context.client(), delayqueue::QueueName::of_existing(queue)),
      admin_(context.client(), delayqueue::QueueName::of_existing(queue)),
      counts_(inspector_.counts()),
      pages_(inspector_, State::dead, {}, counts_, Pages::Payload::none, Pages::Use::remove, kRedriveStep) {}

bool RedriveRun::step() {
  std::vector<std::string> ids;
  try {
    std::vector<MessageInfo> some;
    complete_ = !pages_.next(some);
    if (complete_) return false;
    for (MessageInfo& message : some) ids.push_back(std::move(message.id));
    for (const Outcome outcome : admin_.redrive(ids)) {
      if (outcome == Outcome::done) ++done_;
    }
    return true;
  } catch (const delayqueue::ConnectionError& error) {
    unconfirmed_ = ids.size();
    error_ = error.what();
  } catch (const delayqueue::Error& error) {
    error_ = error.what();
  }
  return false;
}

std::string RedriveRun::progress() const {
  return "redriven " + count_text(done_) + " of " + counted(counts_.dead, "dead letter") + " of " + in_quotes(queue_);
}

std::string RedriveRun::end() {
  std::string text = progress();
  if (!complete_) text += error_.empty() ? ", then stopped" : ", then: " + printable(error_);
  if (unconfirmed_ > 0) text += "; of " + count_text(unconfirmed_) + " more it is not known";
  if (done_ + unconfirmed_ == 0) return text;
  const TopChange change{ChangeKind::redrive_all, queue_, {}};
  return text +
         record_if_requested(context_, {queue_, done_, unconfirmed_}, complete_ ? "done" : "partly", what_of(change));
}

}  // namespace dqctl
