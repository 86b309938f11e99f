#include "consumer/maintenance.h"

namespace delayqueue {
namespace {

constexpr milliseconds kSeldom{10'000};

}  // namespace

void Maintenance::work(redis::Pipeline& pipeline, const store::Store& store) {
  answers_ = {};
  const Clock::time_point now = Clock::now();
  if (!garbage_.empty()) store.gc(pipeline, std::exchange(garbage_, {}));
  if (now >= garbage_due_) {
    garbage_due_ = now + rules_.interval;
    answers_.garbage = store.some_garbage(pipeline);
    if (rules_.dead_limit > 0) trim(pipeline, store, std::nullopt, rules_.dead_limit);
  }
  if (now >= trim_due_) {
    trim_due_ = now + kSeldom;
    trim(pipeline, store, rules_.dead_retention, 0);
  }
  if (now >= sweep_due_) {
    sweep_due_ = now + kSeldom;
    sweep(pipeline, store);
  }
}

void Maintenance::trim(redis::Pipeline& pipeline, const store::Store& store, std::optional<milliseconds> older_than,
                       std::int64_t leave) {
  answers_.trimmed.push_back(store.purge_zset(pipeline, store.keys().dead, store::kBatch, older_than, leave));
}

void Maintenance::sweep(redis::Pipeline& pipeline, const store::Store& store) {
  if (notes_.empty()) {
    answers_.attempts = store.some_notes(pipeline, store.keys().attempts, attempts_cursor_);
    answers_.reasons = store.some_notes(pipeline, store.keys().reason, reasons_cursor_);
    return;
  }
  const auto some = static_cast<std::ptrdiff_t>(std::min(notes_.size(), store::kBatch));
  store.sweep(pipeline, {notes_.begin(), notes_.begin() + some});
  notes_.erase(notes_.begin(), notes_.begin() + some);
  if (!notes_.empty()) sweep_due_ = Clock::time_point();
}

std::size_t Maintenance::read_answers() {
  const Answers answers = std::exchange(answers_, {});
  std::size_t trimmed = 0;
  for (const auto& answer : answers.trimmed) {
    const store::Purged purged = answer.get();
    trimmed += purged.purged;
    if (purged.passed == store::kBatch) garbage_due_ = trim_due_ = Clock::time_point();  // there may be more
  }
  if (answers.garbage) {
    garbage_ = answers.garbage->get();
    if (garbage_.size() == store::kBatch) garbage_due_ = Clock::time_point();
  }
  for (const auto& [answer, cursor] :
       {std::pair(&answers.attempts, &attempts_cursor_), std::pair(&answers.reasons, &reasons_cursor_)}) {
    if (!*answer) continue;
    auto [next, ids] = (*answer)->get();
    *cursor = next;
    // HSCAN of a small hash brings all of it, whatever COUNT says.
    notes_.insert(notes_.end(), ids.begin(), ids.end());
  }
  if (!notes_.empty()) sweep_due_ = Clock::time_point();
  return trimmed;
}

}  // namespace delayqueue
