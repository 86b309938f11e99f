#include <delayqueue/queue_admin.h>

#include "inspector/integrity_check.h"
#include "inspector/leftovers.h"
#include "inspector/partitions.h"
#include "inspector/queue_limits.h"
#include "inspector/queue_removal.h"
#include "inspector/steps.h"
#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "queue/state.h"
#include "store/actions.h"
#include "store/headers.h"
#include "store/pause.h"
#include "store/queries.h"
#include "store/record.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kLongestReason = 1024;
constexpr std::size_t kStepBytes = 256 * 1024;  // of payloads and headers in one call of a script

constexpr int kMostCallsByKey = 100;

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
template <class Answers, class Meaning>
auto meanings(const Answers& answers, Meaning meaning) {
  std::vector<decltype(meaning(*answers.begin()))> all;
  all.reserve(answers.size());
  for (const auto& answer : answers) all.push_back(meaning(answer));
  return all;
}

// The meaning of a character that the scripts redrive, bury, extend and release answer for a message.
Outcome change_outcome(char answer) {
  switch (answer) {
    case 'S':
      return Outcome::done;
    case 'D':
      return Outcome::already;
    case 'H':
      return Outcome::held;
    case 'B':
      return Outcome::no_payload;
    case 'K':
      return Outcome::key_taken;
    default:
      return Outcome::unknown;
  }
}

SendResult send_result_of(char answer) {
  switch (answer) {
    case '1':
      return SendResult::created;
    case 'C':
      return SendResult::cancelled;
    case 'R':
      return SendResult::replaced;
    case 'H':
      return SendResult::held;
    case 'K':
      return SendResult::kept;
    default:
      return SendResult::existed;
  }
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
  if (message.key.size() > store::kLongestKey) {
    throw std::invalid_argument("key of " + id + ": " + std::to_string(message.key.size()) +
                                " bytes; expected at most " + std::to_string(store::kLongestKey));
  }
  record.key = message.key;
  record.headers = store::packed(message.headers);
  return record;
}

// How many partitions the queue must have had for those of these messages that were in another one than 0: they belong
// to the partition that their ids name, and are found there only if consumers and other clients know so many.
unsigned top_for(const std::vector<MessageInfo>& messages, const std::vector<std::string>& ids,
                 const Endpoint& endpoint) {
  const std::uint16_t name_crc = store::name_crc(endpoint.queue(), endpoint.prefix());
  unsigned top = 1;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const unsigned partition = messages[i].partition;
    if (partition >= top && store::partition_of(ids[i], name_crc) == partition) top = partition + 1;
  }
  return endpoint.key_options().bodies_under_dp ? 1 : top;
}

}  // namespace

namespace {

// Redrives or restores a message whose unique key another one may have, by `call(pipeline, holder)`. Each call names
// the body of that one, so that the script may look at it; it may be another one the next time.
template <class Call>
char take_key(SharedConnection& shared_connection, Call call) {
  store::ByKey answer;
  for (int calls = 0; calls < kMostCallsByKey; ++calls) {
    answer = shared_connection.ask(
        [&, holder = answer.call_id](redis::Pipeline& pipeline) { return call(pipeline, holder); });
    if (answer.call_id.empty()) return answer.answer.front();
  }
  return 'K';  // other messages had it each time
}

}  // namespace

class QueueAdmin::Impl {
 public:
  Impl(const Client& client, const std::string& queue, const InspectorOptions& options)
      : partitions_(client, queue, options, LostCopies::restore) {}

  Partitions& partitions() { return partitions_; }
  SharedConnection& home() { return partitions_.home(); }

  // Refuses calls that concern the queue as such.
  void needs_whole_queue(const char* call) const {
    if (!partitions_.only()) return;
    throw std::invalid_argument("partition: " + std::to_string(*partitions_.only()) + "; expected none for " + call +
                                ", which concerns the whole queue");
  }

  // Whether a call wakes a consumer for each partition that it concerns. others: for partition 0 its script does so.
  enum class Wake { none, others, all };

  // Calls `call(connection, ids)` for the ids of each partition: see Partitions::by_partition.
  template <class Call>
  auto by_id(const std::vector<std::string>& ids, Wake wake, Call call) {
    const std::vector<unsigned> where = partitions_.of_ids(ids);
    auto results = partitions_.by_partition(where, ids, call);
    std::set<unsigned> woken(where.begin(), where.end());
    if (wake == Wake::others) woken.erase(0);
    if (wake != Wake::none) partitions_.wake(woken);
    return results;
  }

  void set_pause(store::PauseState wanted, const std::string& who = {});
  void copy_pause(unsigned from, unsigned end);
  std::optional<QueueLimits> set_limits(const QueueLimits& limits);
  void check_limits(unsigned partitions);
  std::optional<store::Limits> divide_limits(unsigned partitions);
  void restore(unsigned partition, const std::vector<store::RestoreRecord>& all, const std::vector<std::size_t>& places,
               std::vector<Sent>& sent);

 private:
  std::int64_t copy_pause(const std::vector<unsigned>& partitions, const store::PauseState& pause);
  store::Limits read_limits();
  store::StoredLimits set_limits(store::Limits wanted);
  std::int64_t copy_limits(const std::vector<unsigned>& partitions, const store::Limits& limits);
  void add_places(unsigned partition);
  template <class Copy>
  std::int64_t copy_to(const std::vector<unsigned>& partitions, std::int64_t generation, Copy copy);
  void write_pauser(redis::Connection& connection, const store::Pauser& pauser);

  Partitions partitions_;
};

// Adds `copy(pipeline, keys, partition)` for each of these partitions. Returns the latest generation that one of them
// answers, or this one. Throws the first error after the others are done.
template <class Copy>
std::int64_t QueueAdmin::Impl::copy_to(const std::vector<unsigned>& partitions, std::int64_t generation, Copy copy) {
  std::exception_ptr error;
  const auto add = [&](redis::Pipeline& pipeline, unsigned partition) -> Partitions::Read {
    const auto stored = copy(pipeline, partitions_.of(partition).moves().keys(), partition);
    return [&generation, stored](const std::string&) { generation = std::max(generation, stored()); };
  };
  partitions_.exchange(partitions, add, [&](unsigned, const std::exception_ptr& why) {
    if (error == nullptr) error = why;
  });
  if (error != nullptr) std::rethrow_exception(error);
  return generation;
}

std::int64_t QueueAdmin::Impl::copy_pause(const std::vector<unsigned>& partitions, const store::PauseState& pause) {
  return copy_to(partitions, pause.generation, [&](redis::Pipeline& pipeline, const store::Keys& keys, unsigned) {
    const auto answer = store::copy_pause(pipeline, keys, pause);
    return [answer] { return answer.get().generation; };
  });
}

std::int64_t QueueAdmin::Impl::copy_limits(const std::vector<unsigned>& partitions, const store::Limits& limits) {
  const auto copy = [&](redis::Pipeline& pipeline, const store::Keys& keys, unsigned partition) {
    const auto answer = store::copy_limits(pipeline, keys, limits, partition);
    return [answer] { return answer.get().limits.generation; };
  };
  return copy_to(partitions, limits.generation, copy);
}

// The pause holds without it, so it is no error if Redis refuses this.
void QueueAdmin::Impl::write_pauser(redis::Connection& connection, const store::Pauser& pauser) {
  redis::Pipeline pipeline(connection);
  const auto answer = store::write_pauser(pipeline, home().moves().keys(), pauser);
  pipeline.run();
  try {
    static_cast<void>(answer.get());
  } catch (const ReplyError&) {
  }
}

// Sets the pause in partition 0, then in the others. One of them has a later generation if partition 0 was rolled back,
// or if another operator was faster: then that one's setting is in partition 0, and counts.
void QueueAdmin::Impl::set_pause(store::PauseState wanted, const std::string& who) {
  std::vector<unsigned> others = partitions_.all();
  others.erase(others.begin());
  const store::Keys& keys = home().moves().keys();
  for (std::int64_t latest = 0;; wanted.generation = latest) {
    home().with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = store::set_pause(pipeline, keys, wanted);
      if (!wanted.paused) home().moves().wake(pipeline);
      pipeline.run();
      wanted.generation = answer.get().generation;
      if (wanted.paused) home().endpoint().register_queue(connection);
      if (wanted.paused && !who.empty()) write_pauser(connection, {wanted.generation, who});
    });
    latest = copy_pause(others, wanted);
    if (!wanted.paused) partitions_.wake({others.begin(), others.end()});
    if (latest == wanted.generation) return;
    const store::PauseState now =
        home().ask([&](redis::Pipeline& pipeline) { return store::read_pause(pipeline, keys); });
    if (now.generation > wanted.generation) return;
  }
}

// Copies the pause of the queue to partitions that it is about to have. A local pause becomes one of the queue.
void QueueAdmin::Impl::copy_pause(unsigned from, unsigned end) {
  std::vector<unsigned> partitions;
  for (unsigned partition = from; partition < end; ++partition) partitions.push_back(partition);
  const auto ask = [&](redis::Pipeline& pipeline) { return store::read_pause(pipeline, home().moves().keys()); };
  store::PauseState pause = home().ask(ask);
  if (partitions.empty() || !pause.paused) return;
  if (store::is_held_off(pause.reason)) return;  // each partition finds out itself
  if (pause.is_local()) {
    pause =
        home().ask([&](redis::Pipeline& pipeline) { return store::set_pause(pipeline, home().moves().keys(), pause); });
  }
  copy_pause(partitions, pause);
}

// Messages that are in flight already get their places, last of all: the limits hold without that.
void QueueAdmin::Impl::add_places(unsigned partition) {
  SharedConnection& connection = partitions_.of(partition);
  std::string cursor = "0";
  do {
    const store::ScannedLeases step = connection.ask(
        [&](redis::Pipeline& pipeline) { return store::scan_leases(pipeline, connection.moves().keys(), cursor); });
    cursor = step.cursor;
    for (std::size_t from = 0; from < step.ids.size(); from += store::kBatch) {
      const auto begin = step.ids.begin() + static_cast<std::ptrdiff_t>(from);
      const auto size = static_cast<std::ptrdiff_t>(std::min(store::kBatch, step.ids.size() - from));
      static_cast<void>(connection.ask([&](redis::Pipeline& pipeline) {
        return connection.moves().correct_places(pipeline, {begin, begin + size});
      }));
    }
  } while (cursor != "0");
}

// Sets the limits in partition 0, then in the others, as set_pause() does, and for the same reasons.
store::StoredLimits QueueAdmin::Impl::set_limits(store::Limits wanted) {
  std::vector<unsigned> all(wanted.parts);
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<unsigned> others(all.begin() + 1, all.end());
  const store::Keys& keys = home().moves().keys();
  store::StoredLimits stored;
  std::exception_ptr error;  // the first; what can be done is done all the same
  for (std::int64_t latest = 0;; wanted.generation = latest) {
    stored = home().ask([&](redis::Pipeline& pipeline) { return store::set_limits(pipeline, keys, wanted); });
    if (!stored.done) return stored;
    home().with_connection([&](redis::Connection& connection) { home().endpoint().register_queue(connection); });
    try {
      latest = copy_limits(others, stored.limits);
    } catch (...) {
      error = std::current_exception();
      break;
    }
    if (latest == stored.limits.generation) break;
    const store::StoredLimits now =
        home().ask([&](redis::Pipeline& pipeline) { return store::read_limits(pipeline, keys); });
    if (now.limits.generation > stored.limits.generation) break;
  }
  for (const unsigned partition : wanted.running ? all : std::vector<unsigned>()) {
    try {
      add_places(partition);
    } catch (...) {
      if (error == nullptr) error = std::current_exception();
    }
  }
  partitions_.wake({all.begin(), all.end()});
  if (error != nullptr) std::rethrow_exception(error);
  return stored;
}

// The number of partitions is read before and after: another operator may have set it meanwhile, and has seen none of
// these limits then.
std::optional<QueueLimits> QueueAdmin::Impl::set_limits(const QueueLimits& limits) {
  const auto partitions = static_cast<unsigned>(partitions_.all().size());
  const store::StoredLimits stored = set_limits(checked(limits, partitions));
  if (!stored.done) return std::nullopt;
  const auto divided = divide_limits(static_cast<unsigned>(partitions_.all().size()));
  return limits_of(divided.value_or(stored.limits));
}

store::Limits QueueAdmin::Impl::read_limits() {
  const auto read = [&](redis::Pipeline& pipeline) { return store::read_limits(pipeline, home().moves().keys()); };
  return home().ask(read).limits;
}

// Throws if the limits cannot be divided among so many partitions.
void QueueAdmin::Impl::check_limits(unsigned partitions) {
  const store::Limits limits = read_limits();
  if (limits.any() && limits.parts < partitions) static_cast<void>(checked(limits_of(limits), partitions));
}

// Divides the limits among so many partitions, if there are more than before, and returns those that it has set. If
// another operator has set limits meanwhile that are too small for these partitions, they are raised: each partition
// delivers one message at a time in any case.
std::optional<store::Limits> QueueAdmin::Impl::divide_limits(unsigned partitions) {
  while (true) {
    const store::Limits limits = read_limits();
    if (!limits.any() || limits.parts >= partitions) return std::nullopt;
    QueueLimits wanted = limits_of(limits);
    for (auto* limit : {&wanted.running, &wanted.length}) {
      if (*limit) *limit = std::max<std::uint64_t>(**limit, partitions);
    }
    const store::StoredLimits stored = set_limits(checked(wanted, partitions));
    if (stored.done) return stored.limits;  // else another operator was faster
  }
}

QueueAdmin::QueueAdmin(const Client& client, const QueueName& queue, const InspectorOptions& options)
    : impl_("QueueAdmin", std::make_unique<Impl>(client, queue.str(), options)) {}
QueueAdmin::~QueueAdmin() = default;
QueueAdmin::QueueAdmin(QueueAdmin&&) noexcept = default;
QueueAdmin& QueueAdmin::operator=(QueueAdmin&&) noexcept = default;

std::vector<State> QueueAdmin::cancel(const MessageRefs& messages) {
  const auto answers =
      impl_->by_id(ids_of(messages), Impl::Wake::none, [](SharedConnection& connection, const auto& some) {
        return in_steps(connection, some, 1, [&](redis::Pipeline& pipeline, const auto& one) {
          return connection.moves().cancel(pipeline, one.front());
        });
      });
  return meanings(answers, state_of);
}

std::vector<Outcome> QueueAdmin::reschedule(const MessageRefs& messages, const RescheduleOptions& when) {
  const store::Due due = due_of(when.delay, when.at);
  const auto answers =
      impl_->by_id(ids_of(messages), Impl::Wake::others, [&](SharedConnection& connection, const auto& some) {
        return in_steps(connection, some, 1, [&](redis::Pipeline& pipeline, const auto& one) {
          return connection.moves().reschedule(pipeline, one.front(), due);
        });
      });
  return meanings(answers, rescheduled_of);
}

std::vector<Outcome> QueueAdmin::redrive(const MessageRefs& messages, const RedriveOptions& options) {
  check_retries(options.retries);
  const auto outcomes =
      impl_->by_id(ids_of(messages), Impl::Wake::all, [&](SharedConnection& connection, const auto& all) {
        std::string found =
            outcomes_in_steps(connection, all, store::kBatch, [&](redis::Pipeline& pipeline, const auto& some) {
              return connection.moves().redrive(pipeline, some, options.retries);
            });
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (found[i] != '?') continue;
          found[i] = take_key(connection, [&](redis::Pipeline& pipeline, const std::string& holder) {
            return connection.moves().redrive_one(pipeline, all[i], holder, options.retries);
          });
        }
        return found;
      });
  return meanings(outcomes, change_outcome);
}

std::vector<Outcome> QueueAdmin::bury(const MessageRefs& messages, const BuryOptions& options) {
  const std::string_view reason = std::string_view(options.reason).substr(0, kLongestReason);
  const std::size_t step = impl_->home().moves().search_lists() > 0 ? 1 : kSmallBatch;
  const auto outcomes =
      impl_->by_id(ids_of(messages), Impl::Wake::others, [&](SharedConnection& connection, const auto& all) {
        return outcomes_in_steps(connection, all, step, [&](redis::Pipeline& pipeline, const auto& some) {
          return connection.moves().bury(pipeline, some, reason, options.held == HeldMessages::force);
        });
      });
  return meanings(outcomes, change_outcome);
}

std::vector<Outcome> QueueAdmin::extend(const MessageRefs& messages, milliseconds by, HeldMessages held) {
  check_at_least("by", by, milliseconds(1));
  const auto outcomes =
      impl_->by_id(ids_of(messages), Impl::Wake::none, [&](SharedConnection& connection, const auto& all) {
        return outcomes_in_steps(connection, all, kSmallBatch, [&](redis::Pipeline& pipeline, const auto& some) {
          return connection.moves().extend(pipeline, some, by, held == HeldMessages::force);
        });
      });
  return meanings(outcomes, change_outcome);
}

// The message released last is delivered first, so the ids are sent in reverse order.
std::vector<Outcome> QueueAdmin::release(const MessageRefs& messages, HeldMessages held) {
  std::vector<std::string> reversed = ids_of(messages);
  std::reverse(reversed.begin(), reversed.end());
  std::string outcomes = impl_->by_id(reversed, Impl::Wake::all, [&](SharedConnection& connection, const auto& all) {
    return outcomes_in_steps(connection, all, kSmallBatch, [&](redis::Pipeline& pipeline, const auto& some) {
      return connection.moves().release_waiting(pipeline, some, held == HeldMessages::force);
    });
  });
  std::reverse(outcomes.begin(), outcomes.end());
  return meanings(outcomes, change_outcome);
}

void QueueAdmin::record(const Action& action) {
  const store::Keys& keys = impl_->home().moves().keys();
  impl_->home().with_connection([&](redis::Connection& connection) {
    redis::Pipeline clock(connection);
    clock.command("TIME");
    clock.run();
    store::ActionEntry entry{time_of(clock.reply(0)).count(), action.messages, action.outcome, action.who, action.what};
    redis::Pipeline pipeline(connection);
    const auto added = store::add_action(pipeline, keys, entry);
    pipeline.run();
    static_cast<void>(added.get());  // throws what Redis refused
  });
}

std::uint64_t QueueAdmin::purge(State state, const PurgeOptions& options) {
  check_removable(state);
  if (options.older_than) check_at_least("older_than", *options.older_than, milliseconds(0));
  if (is_list(state) && options.older_than) {
    throw std::invalid_argument("older_than: set; expected none for ready and retry, whose messages have no time");
  }
  const auto answers = impl_->partitions().ask_all(
      [](redis::Pipeline& pipeline, const store::Moves& moves) { return store::counts(pipeline, moves.keys()); });
  for (const auto& answer : answers) static_cast<void>(answer.get());  // throws before anything is deleted
  std::uint64_t most = options.limit == 0 ? std::numeric_limits<std::uint64_t>::max() : options.limit;
  std::uint64_t purged = 0;
  for (const auto& answer : answers) {
    SharedConnection& connection = impl_->partitions().of(answer.partition);
    const std::string& key = key_of(connection.moves().keys(), state);
    const store::QueueCounts& before = answer.get();
    std::uint64_t left = std::min(most, state == State::pending ? before.pending
                                        : state == State::dead  ? before.dead
                                        : state == State::ready ? before.ready
                                                                : before.retry);
    while (left > 0) {
      const std::size_t step_most = std::min<std::uint64_t>(left, store::kBatch);
      const store::Purged step = connection.ask([&](redis::Pipeline& pipeline) {
        return is_list(state) ? connection.moves().purge_list(pipeline, key, step_most)
                              : connection.moves().purge_zset(pipeline, key, step_most, options.older_than, 0);
      });
      collect(connection, step.garbage);
      purged += step.purged;
      left -= std::min<std::uint64_t>(left, step.removed);
      most -= std::min<std::uint64_t>(most, step.removed);
      if (step.removed < step_most) break;
    }
  }
  return purged;
}

Purged QueueAdmin::purge_ids(State state, const MessageRefs& messages) {
  check_removable(state);
  Purged purged;
  const std::string outcomes =
      impl_->by_id(ids_of(messages), Impl::Wake::none, [&](SharedConnection& connection, const auto& all) {
        const std::string& key = key_of(connection.moves().keys(), state);
        const auto steps = in_steps(connection, all, kSmallBatch, [&](redis::Pipeline& pipeline, const auto& some) {
          return connection.moves().purge_ids(pipeline, key, some);
        });
        std::string of_partition;
        for (const store::PurgedIds& step : steps) {
          purged.places += step.places;
          of_partition += step.outcomes;
        }
        if (of_partition.size() != all.size()) {
          throw ReplyError("purge: " + unexpected_count(of_partition.size(), all.size()));
        }
        if (is_list(state)) purged.places += remove_hints(connection, key);
        return of_partition;
      });
  for (const char outcome : outcomes) purged.purged.push_back(outcome == 'S');
  purged.messages = static_cast<std::uint64_t>(std::count(outcomes.begin(), outcomes.end(), 'S'));
  return purged;
}

// Restores the messages at these places, which belong to one partition.
void QueueAdmin::Impl::restore(unsigned partition, const std::vector<store::RestoreRecord>& all,
                               const std::vector<std::size_t>& places, std::vector<Sent>& sent) {
  SharedConnection& connection = partitions_.of(partition);
  if (partition > 0) partitions_.layout().copy_to(partition);
  for (std::size_t done = 0; done < places.size();) {
    std::vector<store::RestoreRecord> step;
    for (std::size_t bytes = 0; done + step.size() < places.size() && step.size() < kSmallBatch;) {
      const store::RestoreRecord& next = all[places[done + step.size()]];
      const std::size_t size = next.payload.size() + next.headers.size();
      if (!step.empty() && bytes + size > kStepBytes) break;
      bytes += size;
      step.push_back(next);
    }
    store::Outcomes outcomes = connection.ask([&](redis::Pipeline& pipeline) {
      const auto answer = connection.moves().restore(pipeline, step);
      if (partition == 0) connection.moves().wake(pipeline);
      return answer;
    });
    if (outcomes.size() != step.size()) {
      throw ReplyError("restore: " + unexpected_count(outcomes.size(), step.size()));
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (outcomes[i] != '?') continue;
      outcomes[i] = take_key(connection, [&](redis::Pipeline& pipeline, const std::string& holder) {
        return connection.moves().restore_one(pipeline, step[i], holder);
      });
    }
    for (const char outcome : outcomes) {
      sent[places[done++]].result = send_result_of(outcome);
    }
  }
  if (partition > 0) partitions_.wake({partition});
}

std::vector<Sent> QueueAdmin::restore(const std::vector<MessageInfo>& messages, const RestoreOptions& options) {
  impl_->needs_whole_queue("restore");
  check_new_queue(impl_->home().endpoint().queue(), impl_->home().endpoint().prefix());
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  for (const MessageInfo& message : messages) ids.push_back(id_of("id", message.id));
  std::vector<store::RestoreRecord> all;
  std::vector<Sent> sent;
  all.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    all.push_back(record_of(messages[i], ids[i]));
    all.back().replaces = options.replace;
    sent.push_back({ids[i]});
  }
  if (all.empty()) return sent;
  const unsigned top = top_for(messages, ids, impl_->home().endpoint());
  if (top > 1) {
    impl_->partitions().layout().read();
    impl_->partitions().layout().raise_top(top);
  }
  const std::vector<unsigned> where = impl_->partitions().of_ids(ids);
  std::map<unsigned, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < ids.size(); ++i) places[where[i]].push_back(i);
  for (const auto& one : places) impl_->restore(one.first, all, one.second, sent);
  SharedConnection& last = impl_->partitions().of(places.rbegin()->first);
  last.with_connection([&](redis::Connection& connection) { last.endpoint().register_queue(connection); });
  return sent;
}

void QueueAdmin::pause(const PauseOptions& options) {
  impl_->needs_whole_queue("pause");
  if (options.duration) check_at_least("duration", *options.duration, milliseconds(1));
  if (store::is_held_off(options.reason)) {
    throw std::invalid_argument("reason: it begins with \"" + std::string(store::kHeldOff) +
                                "\", which marks the pauses of handlers; expected another text");
  }
  impl_->set_pause({-1, true, options.reason, options.duration}, options.who);
}

void QueueAdmin::resume() {
  impl_->needs_whole_queue("resume");
  impl_->set_pause({});
}

std::optional<QueueLimits> QueueAdmin::set_limits(const QueueLimits& limits) {
  impl_->needs_whole_queue("set_limits");
  check_new_queue(impl_->home().endpoint().queue(), impl_->home().endpoint().prefix());
  static_cast<void>(checked(limits, 1));  // before anything is read
  return impl_->set_limits(limits);
}

Layout QueueAdmin::set_partitions(unsigned partitions) {
  impl_->needs_whole_queue("set_partitions");
  check_new_queue(impl_->home().endpoint().queue(), impl_->home().endpoint().prefix());
  LayoutKeeper& keeper = impl_->partitions().layout();
  keeper.check(partitions);
  const std::vector<unsigned> used = impl_->partitions().probe(Partitions::Probe::complete);
  if (!used.empty() && used.front() < partitions) {
    const store::Keys& keys = impl_->partitions().of(used.front()).moves().keys();
    throw std::invalid_argument("partitions: " + std::to_string(partitions) + ", but " + keys.base +
                                " has messages, and no copy of the layout of this queue: delete the keys of the " +
                                "program that uses this name, or set fewer partitions; if they belong to this queue, " +
                                "set the field top of " + keys.settings + " to " + std::to_string(used.front() + 1));
  }
  const unsigned top = std::max(partitions, keeper.known().top);
  impl_->check_limits(top);  // before the first write
  impl_->copy_pause(1, top);
  impl_->divide_limits(top);
  const store::Layout layout = keeper.set(partitions);
  impl_->divide_limits(layout.top);  // those that another operator has set meanwhile
  impl_->home().with_connection(
      [&](redis::Connection& connection) { impl_->home().endpoint().register_queue(connection); });
  return {layout.partitions, layout.top};
}

Remains QueueAdmin::forget() {
  impl_->needs_whole_queue("forget");
  return QueueRemoval(impl_->partitions()).run();
}

bool QueueAdmin::lock(const std::string& holder, milliseconds duration) {
  check_at_least("duration", duration, milliseconds(1));
  return impl_->home().ask(
      [&](redis::Pipeline& pipeline) { return impl_->home().moves().lock(pipeline, holder, duration); });
}

void QueueAdmin::unlock(const std::string& holder) {
  impl_->home().ask([&](redis::Pipeline& pipeline) { return impl_->home().moves().unlock(pipeline, holder); });
}

CheckReport QueueAdmin::check(const CheckOptions& options) {
  check_at_least("recheck_after", options.recheck_after, milliseconds(0));
  check_retries(options.retries);
  return check_partitions(impl_->partitions(), options);
}

}  // namespace delayqueue
