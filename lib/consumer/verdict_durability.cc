#include "consumer/verdict_durability.h"

#include <algorithm>
#include <chrono>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kLongestIdle{10};

}  // namespace

void VerdictDurability::add(const Verdicts& verdicts, const std::string& stats) {
  stats_ = stats;
  for (const auto& [counters, count] : verdicts) {
    const auto is_same = [wanted = counters](const auto& one) { return one.first == wanted; };
    const auto found = std::find_if(executed_.begin(), executed_.end(), is_same);
    if (found == executed_.end()) {
      executed_.emplace_back(counters, count);
    } else {
      found->second += count;
    }
  }
}

void VerdictDurability::use(std::unique_ptr<redis::Connection> connection) {
  connection_ = std::move(connection);
  idle_until_ = redis::Clock::now() + kLongestIdle;
}

void VerdictDurability::advance() {
  if (wait_ != nullptr) {
    if (!wait_->pipeline.receive_arrived()) return;
    const std::unique_ptr<Wait> done = std::move(wait_);
    if (!done->verdicts.empty()) read(write_concern_.missing(done->asked), done->verdicts);
  }
  if (connection_ != nullptr && (!executed_.empty() || redis::Clock::now() >= idle_until_)) ask();
}

void VerdictDurability::ask() {
  wait_.reset(new Wait{redis::Pipeline(*connection_), std::exchange(executed_, {})});
  redis::Pipeline& pipeline = wait_->pipeline;
  if (wait_->verdicts.empty()) {
    pipeline.command("PING");
  } else {
    wait_->asked = write_concern_.ask_after_write(pipeline, stats_, below_);
  }
  idle_until_ = redis::Clock::now() + kLongestIdle;
  pipeline.send();
}

// The verdicts are valid. They are forgotten, and the messages delivered again, only if the master is lost now.
void VerdictDurability::read(const std::string& missing, const Verdicts& verdicts) {
  for (const auto& [counters, count] : verdicts) {
    if (!missing.empty()) counters->unconfirmed += count;
  }
  if (missing.empty() == !below_) return;
  below_ = !missing.empty();
  const LogFields about{connection_ == nullptr ? "" : connection_->where(), ""};
  if (below_) {
    reporter_.failed(this, "verdicts are not as durable as asked for: " + missing, false, about);
  } else {
    reporter_.recovered(this, "verdicts are as durable as asked for again", about);
  }
}

void VerdictDurability::close() {
  if (wait_ != nullptr) add(wait_->verdicts, stats_);
  wait_.reset();
  connection_.reset();
  if (const Verdicts lost = std::exchange(executed_, {}); !lost.empty()) {
    read("the connection that confirms them was lost", lost);
  }
}

}  // namespace delayqueue
