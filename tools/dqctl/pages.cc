#include "pages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lines.h"
#include "output/table.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kStart = 64;                   // bytes of a payload to show
constexpr std::size_t kPayloadWithPage = 16 * 1024;  // bytes fetched with a page; a longer payload is fetched alone
constexpr std::size_t kPageBytes = 4U << 20U;        // of all payloads of a page, at most
constexpr std::size_t kSample = 5;

std::string text_of(const Filter& filter) {
  std::string text;
  if (filter.older_than) text += " older than " + span_text(*filter.older_than);
  if (filter.match) text += " matching " + in_quotes(*filter.match);
  if (filter.reason) text += " with reason " + in_quotes(*filter.reason);
  return text;
}

void show_sample(Output& out, const std::vector<MessageInfo>& sample, Time now) {
  Listing listing(out, {{"ID"}, {"WHEN"}, {"TRIED", true}, {"REASON"}, {"PAYLOAD"}}, "sample");
  for (const MessageInfo& message : sample) {
    listing.add({{id_text(message.id)},
                 {when_text(message, now)},
                 {std::to_string(message.deliveries)},
                 {cut(printable(message.reason), 40)},
                 {message.size ? printable(whole_characters(message.payload)) : "missing"}},
                {});
  }
  listing.end();
}

}  // namespace

std::uint64_t count_of(const delayqueue::Counts& counts, State state) {
  return state == State::pending ? counts.pending
         : state == State::ready ? counts.ready
         : state == State::unack ? counts.unack
         : state == State::retry ? counts.retry
                                 : counts.dead;
}

Pages::Pages(delayqueue::Inspector& inspector, State state, Filter filter, const delayqueue::Counts& counts,
             Payload payload, std::size_t most)
    : inspector_(inspector),
      state_(state),
      filter_(std::move(filter)),
      now_(counts.now),
      payload_(payload),
      total_(count_of(counts, state)),
      count_at_start_(total_) {
  const std::size_t bytes = payload == Payload::whole ? kPayloadWithPage : kStart;
  options_.payload = filter_.match ? std::max(bytes, Filter::kMatchedBytes) : bytes;
  options_.merge = false;  // so that each page has messages of one partition: see add_freed()
  options_.limit = std::clamp<std::size_t>(kPageBytes / options_.payload, 1, std::min<std::size_t>(most, 1000));
}

bool Pages::next(std::vector<MessageInfo>& into) {
  into.clear();
  if (!first_) options_.cursor = ended_ ? page_.next_partition : page_.next_after(freed_);
  last_ = last_ || (!first_ && options_.cursor.empty()) || examined_ >= count_at_start_;
  first_ = false;
  ended_ = false;
  freed_ = 0;
  if (interrupted() || (last_ && !begin_again())) return false;
  const std::size_t most = options_.limit;
  options_.limit = static_cast<std::size_t>(std::min<std::uint64_t>(most, count_at_start_ - examined_));
  page_ = inspector_.list(state_, options_);
  options_.limit = most;
  examined_ += page_.size();
  for (MessageInfo& message : page_.messages) {
    ended_ = ended_ || filter_.ends(message, now_);
    if (ended_ || !filter_.passes(message, now_)) continue;
    if (walk_ > 1 && (arrived_later(message) || skipped_.count(message.id) > 0)) continue;
    is_stored_id(message.id) ? into.push_back(std::move(message)) : void(++foreign_);
  }
  if (page_.empty() || (ended_ && page_.next_partition.empty())) last_ = true;
  page_.messages.clear();
  if (payload_ == Payload::whole) load_whole_payloads(into);
  matched_ += into.size();
  return true;
}

// Whether no message can have been missed. The last walk matched nothing, and read all messages, or as many as the
// walk before: lists may hold ids without a message, and --older-than ends a walk early. If consumers take messages
// all the time, no two walks are alike; then three walks without a match are enough.
bool Pages::found_everything() {
  constexpr int kMostQuiet = 3;
  if (matched_ > 0) {
    empty_walks_ = 0;
    return false;
  }
  const bool same = empty_walks_ > 0 && empty_walk_examined_ == examined_ && empty_walk_count_ == count_at_start_;
  empty_walk_examined_ = examined_;
  empty_walk_count_ = count_at_start_;
  return ++empty_walks_ == kMostQuiet || same || examined_ >= count_at_start_;
}

bool Pages::begin_again() {
  constexpr int kMostWalks = 20;
  if (!repeats_ || found_everything()) return false;
  unfinished_ = walk_ >= kMostWalks && matched_ > 0;
  if (walk_ >= kMostWalks) return false;
  count_at_start_ = count_of(inspector_.counts(), state_);
  if (count_at_start_ == 0) return false;
  ++walk_;
  matched_ = examined_ = foreign_ = 0;
  options_.cursor.clear();
  last_ = ended_ = false;
  return true;
}

// Whether a message arrived after the start, by the time when it became a dead letter or the time in its id. Without
// either it counts as missed before.
bool Pages::arrived_later(const MessageInfo& message) const {
  if (state_ == State::dead && message.at) return *message.at > now_;
  return message.sent && *message.sent > now_;
}

void Pages::add_freed(std::uint64_t places) { freed_ += places; }

// Fetches the payloads that were cut in the page, one by one.
void Pages::load_whole_payloads(std::vector<MessageInfo>& messages) {
  for (MessageInfo& message : messages) {
    if (!message.size || message.payload.size() >= *message.size) continue;
    auto whole = inspector_.find(message.id);
    if (whole && whole->state == state_) {
      message = std::move(*whole);
    } else {
      message.id.clear();
    }
  }
  const auto gone = std::remove_if(messages.begin(), messages.end(), [](const MessageInfo& m) { return m.id.empty(); });
  messages.erase(gone, messages.end());
}

void report_foreign_ids(Output& out, const std::string& queue, std::uint64_t foreign) {
  if (foreign == 0) return;
  out.stderr_line(count_text(foreign) + (foreign == 1 ? " id is no UUID, and is" : " ids are no UUIDs, and are") +
                  " left alone: " + command_text("doctor", {queue}) + " shows them");
}

void report_unfinished(Output& out, const Pages& pages) {
  if (!pages.unfinished()) return;
  out.stderr_line("messages that match still come in; run it again for those that came meanwhile");
}

Exit dry_run(Context& context, const std::string& verb, const std::string& queue, State state, const Filter& filter,
             const delayqueue::Counts& counts, bool foreign_too) {
  Output& out = context.out();
  Pages pages(context.inspector(queue), state, filter, counts, Pages::Payload::start);
  std::vector<MessageInfo> sample, some;
  std::uint64_t matching = 0;
  Progress progress(out, "examined");
  while (pages.next(some)) {
    matching += some.size();
    for (std::size_t i = 0; i < some.size() && sample.size() < kSample; ++i) sample.push_back(std::move(some[i]));
    progress.update(pages.examined(), pages.total());
    if (filter.any() || sample.size() < std::min<std::uint64_t>(kSample, pages.total())) continue;
    matching = pages.total();
    break;
  }
  progress.clear();
  if (foreign_too && matching < pages.total()) matching += pages.foreign();
  if (interrupted()) throw Failure(Exit::interrupted, "interrupted; nothing was done");
  if (out.is_table()) {
    show_sample(out, sample, counts.now);
  } else {
    std::vector<Object> objects;
    objects.reserve(sample.size());
    for (const MessageInfo& message : sample) objects.push_back(message_object(message, "payload_start"));
    Object object;
    object.add("queue", queue).add("state", delayqueue::to_string(state)).add("dry_run", true);
    object.add("matching", matching).add("of", pages.total()).add("sample", objects);
    out.object(object);
  }
  const std::string noun = std::string(delayqueue::to_string(state)) + " message";
  out.stderr_line("dry run: would " + verb + ' ' + count_text(matching) + " of " + counted(pages.total(), noun) +
                  " of " + in_quotes(queue) + text_of(filter) + (matching > 0 ? "; to do it, add --yes" : ""));
  if (!foreign_too) report_foreign_ids(out, queue, pages.foreign());
  if (const std::string advice = filter.advice(); matching == 0 && !advice.empty()) out.stderr_line(advice);
  return Exit::done;
}

}  // namespace dqctl
