#include <delayqueue/queue_admin.h>

#include "inspector/integrity_check.h"
#include "inspector/leftovers.h"
#include "inspector/queue_removal.h"
#include "inspector/steps.h"
#include "queue/option_checks.h"
#include "queue/shared_connection.h"
#include "queue/state.h"
#include "store/queries.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace delayqueue {
namespace {

constexpr std::size_t kLongestReason = 1024;
constexpr std::size_t kStepBytes = 256 * 1024;  // of payloads in one call of a script

// Ids in one call of a script that runs several commands per id: the call takes well under 2 ms.
constexpr std::size_t kSmallBatch = 64;

void check_retries(int retries) {
  if (retries < 0) throw std::invalid_argument("retries: " + std::to_string(retries) + "; expected 0 or more");
}

void check_removable(State state) {
  if (state != State::unack && state != State::unknown) return;
  throw std::invalid_argument(std::string("state: ") + to_string(state) + "; expected pending, ready, retry or dead");
}

// The meanings of the answers for the messages: characters or words.
template <class Outcome, class Answers, class Meaning>
std::vector<Outcome> meanings(const Answers& answers, Meaning meaning) {
  std::vector<Outcome> all;
  all.reserve(answers.size());
  for (const auto& answer : answers) all.push_back(meaning(answer));
  return all;
}

// The form in which restore stores a message. Messages that were held or in a list are due at once.
store::RestoreRecord record_of(const MessageInfo& message, const std::string& id) {
  if (!message.size) throw std::invalid_argument("payload of " + id + ": missing; restore needs it");
  if (message.payload.size() != *message.size) {
    throw std::invalid_argument("payload of " + id + ": " + std::to_string(message.payload.size()) + " bytes of " +
                                std::to_string(*message.size) + "; list or find the message with its whole payload");
  }
  store::RestoreRecord record;
  record.id = id;
  record.dead = message.state == State::dead;
  const bool waits = record.dead || message.state == State::pending || (message.state == State::unack && !message.held);
  if (waits && message.at) {
    record.at_us = store::to_us(*message.at);
    check_time(("at of " + id).c_str(), std::chrono::floor<milliseconds>(std::chrono::microseconds(record.at_us)));
  }
  if (!record.dead && !message.retries) throw std::invalid_argument("retries of " + id + ": unset; expected a number");
  record.retries = message.retries.value_or(0);
  check_retries(record.retries);
  record.deliveries = std::max(0, message.deliveries);
  if (message.ttl && !record.dead) {
    check_at_least("ttl", *message.ttl, milliseconds(0));
    record.ttl = std::max(*message.ttl, milliseconds(1));
  }
  record.reason = std::string_view(message.reason).substr(0, kLongestReason);
  record.payload = message.payload;
  return record;
}

// What each of the partitions has that the queue can have. Takes one round trip for each.
std::vector<std::optional<store::Examined>> examine(SharedConnection& shared_connection, unsigned possible) {
  const Endpoint& endpoint = shared_connection.endpoint();
  std::vector<std::optional<store::Examined>> all(possible);
  for (unsigned partition = 0; partition < possible; ++partition) {
    const store::Keys keys = store::make_keys(endpoint.queue(), endpoint.key_options(), partition);
    shared_connection.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto copy = store::read_layout(pipeline, keys);
      const auto has_messages = store::has_messages(pipeline, keys);
      pipeline.run();
      all[partition] = store::Examined{copy.get(), has_messages.get()};
    });
  }
  return all;
}

}  // namespace

class QueueAdmin::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, const InspectorOptions& options)
      : shared_connection_(url, queue, options.connection, options.queue, {}, RegisterQueue::if_exists) {}

  const store::Keys& keys() const { return store().keys(); }
  const store::Store& store() const { return shared_connection_.store(); }
  SharedConnection& shared_connection() { return shared_connection_; }

  // Wakes an idle consumer. Ignores a refusal, for example because Redis is out of memory: the marker is only a hint.
  void wake() {
    shared_connection_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      store().wake(pipeline);
      pipeline.run();
    });
  }

 private:
  SharedConnection shared_connection_;
};

QueueAdmin::QueueAdmin(const std::string& url, const std::string& queue, const InspectorOptions& options)
    : impl_("QueueAdmin", std::make_unique<Impl>(url, queue, options)) {}
QueueAdmin::~QueueAdmin() = default;
QueueAdmin::QueueAdmin(QueueAdmin&&) noexcept = default;
QueueAdmin& QueueAdmin::operator=(QueueAdmin&&) noexcept = default;

std::vector<State> QueueAdmin::cancel(const std::vector<std::string>& ids) {
  const auto answers = in_steps(
      impl_->shared_connection(), ids_of(ids), 1,
      [&](redis::Pipeline& pipeline, const auto& one) { return impl_->store().cancel(pipeline, one.front()); });
  return meanings<State>(answers, state_of);
}

std::vector<Moved> QueueAdmin::reschedule(const std::vector<std::string>& ids, const RescheduleOptions& when) {
  const store::Due due = due_of(when.delay, when.at);
  const auto answers =
      in_steps(impl_->shared_connection(), ids_of(ids), 1, [&](redis::Pipeline& pipeline, const auto& one) {
        return impl_->store().reschedule(pipeline, one.front(), due);
      });
  return meanings<Moved>(answers, moved_of);
}

std::vector<Redriven> QueueAdmin::redrive(const std::vector<std::string>& ids, const RedriveOptions& options) {
  check_retries(options.retries);
  const auto outcomes = outcomes_in_steps(impl_->shared_connection(), ids_of(ids), store::kBatch,
                                          [&](redis::Pipeline& pipeline, const auto& some) {
                                            return impl_->store().redrive(pipeline, some, options.retries);
                                          });
  impl_->wake();
  return meanings<Redriven>(outcomes, [](char outcome) {
    return outcome == 'S' ? Redriven::redriven : outcome == 'B' ? Redriven::no_body : Redriven::unknown;
  });
}

std::vector<Buried> QueueAdmin::bury(const std::vector<std::string>& ids, const BuryOptions& options) {
  const std::string_view reason = std::string_view(options.reason).substr(0, kLongestReason);
  const std::size_t step = impl_->store().search_lists() > 0 ? 1 : kSmallBatch;
  const auto outcomes = outcomes_in_steps(
      impl_->shared_connection(), ids_of(ids), step, [&](redis::Pipeline& pipeline, const auto& some) {
        return impl_->store().bury(pipeline, some, reason, options.held == HeldMessages::force);
      });
  return meanings<Buried>(outcomes, [](char outcome) {
    return outcome == 'S'   ? Buried::buried
           : outcome == 'D' ? Buried::already
           : outcome == 'H' ? Buried::held
                            : Buried::unknown;
  });
}

std::vector<Extended> QueueAdmin::extend(const std::vector<std::string>& ids, milliseconds by, HeldMessages held) {
  check_at_least("by", by, milliseconds(1));
  const auto outcomes = outcomes_in_steps(
      impl_->shared_connection(), ids_of(ids), kSmallBatch, [&](redis::Pipeline& pipeline, const auto& some) {
        return impl_->store().extend(pipeline, some, by, held == HeldMessages::force);
      });
  return meanings<Extended>(outcomes, [](char outcome) {
    return outcome == 'S' ? Extended::extended : outcome == 'H' ? Extended::held : Extended::unknown;
  });
}

// The message released last is delivered first, so the ids are sent in reverse order.
std::vector<Released> QueueAdmin::release(const std::vector<std::string>& ids, HeldMessages held) {
  std::vector<std::string> all = ids_of(ids);
  std::reverse(all.begin(), all.end());
  std::string outcomes =
      outcomes_in_steps(impl_->shared_connection(), all, kSmallBatch, [&](redis::Pipeline& pipeline, const auto& some) {
        return impl_->store().release_waiting(pipeline, some, held == HeldMessages::force);
      });
  impl_->wake();
  std::reverse(outcomes.begin(), outcomes.end());
  return meanings<Released>(outcomes, [](char outcome) {
    return outcome == 'S' ? Released::released : outcome == 'H' ? Released::held : Released::unknown;
  });
}

std::uint64_t QueueAdmin::purge(State state, const PurgeOptions& options) {
  check_removable(state);
  if (options.older_than) check_at_least("older_than", *options.older_than, milliseconds(0));
  if (is_list(state) && options.older_than) {
    throw std::invalid_argument("older_than: set; expected none for ready and retry, whose messages have no time");
  }
  const std::string& key = key_of(impl_->keys(), state);
  const store::QueueCounts before =
      impl_->shared_connection().ask([&](redis::Pipeline& pipeline) { return store::counts(pipeline, impl_->keys()); });
  const std::uint64_t there = state == State::pending ? before.pending
                              : state == State::dead  ? before.dead
                              : state == State::ready ? before.ready
                                                      : before.retry;
  std::uint64_t left = options.limit == 0 ? there : std::min(options.limit, there);
  std::uint64_t purged = 0;
  while (left > 0) {
    const std::size_t most = std::min<std::uint64_t>(left, store::kBatch);
    const store::Purged step = impl_->shared_connection().ask([&](redis::Pipeline& pipeline) {
      return is_list(state) ? impl_->store().purge_list(pipeline, key, most)
                            : impl_->store().purge_zset(pipeline, key, most, options.older_than, 0);
    });
    collect(impl_->shared_connection(), step.garbage);
    purged += step.purged;
    left -= std::min<std::uint64_t>(left, step.removed);
    if (step.removed < most) break;
  }
  return purged;
}

Removed QueueAdmin::purge(State state, const std::vector<std::string>& ids) {
  check_removable(state);
  const std::string& key = key_of(impl_->keys(), state);
  const auto steps = in_steps(
      impl_->shared_connection(), ids_of(ids), kSmallBatch,
      [&](redis::Pipeline& pipeline, const auto& some) { return impl_->store().purge_ids(pipeline, key, some); });
  Removed removed;
  for (const store::PurgedIds& step : steps) {
    removed.messages += static_cast<std::uint64_t>(std::count(step.outcomes.begin(), step.outcomes.end(), 'S'));
    removed.places += step.places;
    for (const char outcome : step.outcomes) removed.removed.push_back(outcome == 'S');
  }
  if (removed.removed.size() != ids.size()) {
    throw ReplyError("purge: " + unexpected_count(removed.removed.size(), ids.size()));
  }
  if (is_list(state) && !ids.empty()) removed.places += remove_hints(impl_->shared_connection(), key);
  return removed;
}

std::vector<Sent> QueueAdmin::restore(const std::vector<MessageInfo>& messages) {
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  for (const MessageInfo& message : messages) ids.push_back(id_of("id", message.id));
  std::vector<store::RestoreRecord> all;
  all.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) all.push_back(record_of(messages[i], ids[i]));
  std::vector<Sent> sent;
  while (sent.size() < all.size()) {
    std::vector<store::RestoreRecord> step;
    for (std::size_t bytes = 0; sent.size() + step.size() < all.size() && step.size() < kSmallBatch;) {
      const store::RestoreRecord& next = all[sent.size() + step.size()];
      if (!step.empty() && bytes + next.payload.size() > kStepBytes) break;
      bytes += next.payload.size();
      step.push_back(next);
    }
    const store::Outcomes outcomes = impl_->shared_connection().ask([&](redis::Pipeline& pipeline) {
      const auto answer = impl_->store().restore(pipeline, step);
      impl_->store().wake(pipeline);
      return answer;
    });
    if (outcomes.size() != step.size()) {
      throw ReplyError("restore: " + unexpected_count(outcomes.size(), step.size()));
    }
    for (const char outcome : outcomes) sent.push_back({ids[sent.size()], outcome == '1', outcome == 'C'});
  }
  if (all.empty()) return sent;
  impl_->shared_connection().with_connection(
      [&](redis::Connection& connection) { impl_->shared_connection().endpoint().register_queue(connection); });
  return sent;
}

void QueueAdmin::pause(const PauseOptions& options) {
  if (options.duration) check_at_least("duration", *options.duration, milliseconds(1));
  impl_->shared_connection().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("SET").key(impl_->keys().paused).arg(options.reason);
    if (options.duration) pipeline.arg("PX").arg(options.duration->count());
    pipeline.run();
    pipeline.reply(0);
    impl_->shared_connection().endpoint().register_queue(connection);
  });
}

void QueueAdmin::resume() {
  impl_->shared_connection().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("DEL").key(impl_->keys().paused);
    impl_->store().wake(pipeline);
    pipeline.run();
    pipeline.reply(0);
  });
}

Layout QueueAdmin::set_partitions(unsigned partitions) {
  LayoutKeeper keeper = layout_of(impl_->shared_connection());
  keeper.check(partitions);
  const std::vector<unsigned> used = keeper.probe(examine(impl_->shared_connection(), keeper.possible()));
  if (!used.empty() && used.front() < partitions) {
    const Endpoint& endpoint = impl_->shared_connection().endpoint();
    const store::Keys keys = store::make_keys(endpoint.queue(), endpoint.key_options(), used.front());
    throw std::invalid_argument("partitions: " + std::to_string(partitions) + ", but " + keys.base +
                                " has messages, and no copy of the layout of this queue: delete the keys of the " +
                                "program that uses this name, or set fewer partitions; if they belong to this queue, " +
                                "set the field top of " + keys.settings + " to " + std::to_string(used.front() + 1));
  }
  const store::Layout layout = keeper.set(partitions);
  return {layout.partitions, layout.top};
}

Remains QueueAdmin::forget() { return QueueRemoval(impl_->shared_connection()).run(); }

bool QueueAdmin::lock(const std::string& holder, milliseconds duration) {
  check_at_least("duration", duration, milliseconds(1));
  return impl_->shared_connection().ask(
      [&](redis::Pipeline& pipeline) { return impl_->store().lock(pipeline, holder, duration); });
}

void QueueAdmin::unlock(const std::string& holder) {
  impl_->shared_connection().ask([&](redis::Pipeline& pipeline) { return impl_->store().unlock(pipeline, holder); });
}

CheckReport QueueAdmin::check(const CheckOptions& options) {
  check_at_least("recheck_after", options.recheck_after, milliseconds(0));
  check_retries(options.retries);
  return IntegrityCheck(impl_->shared_connection(), options).run();
}

}  // namespace delayqueue
