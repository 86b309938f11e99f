#include "serve/events.h"

namespace dqctl {
namespace {

constexpr std::size_t kKeptChanges = 100;
constexpr std::chrono::seconds kEventTick{1};
// Then a comment is sent, which shows whether the client is still there. The page gives up a stream that is silent for
// 10 s: far fewer, so that a late comment does not end it.
constexpr int kSilentTicks = 4;
constexpr std::chrono::hours kLongestStream{1};

std::string event_text(const char* name, const std::string& document) {
  return std::string("event: ") + name + "\ndata: " + document + "\n\n";
}

}  // namespace

std::shared_ptr<Events::Listener> Events::listen(const std::string& queues, std::function<void()> asked) {
  {
    const std::lock_guard lock(mutex_);
    if (listeners_ >= kMostListeners || stopped_) return nullptr;
    ++listeners_;
  }
  return std::make_shared<Listener>(*this, std::move(asked), "retry: 3000\n\n" + event_text("queues", queues));
}

void Events::publish_queues(const std::string& document) {
  auto bytes = std::make_shared<const std::string>(event_text("queues", document));
  const std::lock_guard lock(mutex_);
  queues_ = std::move(bytes);
  ++documents_;
  published_.notify_all();
}

void Events::publish_change(const std::string& document) {
  auto bytes = std::make_shared<const std::string>(event_text("audit", document));
  const std::lock_guard lock(mutex_);
  changes_.emplace_back(++last_change_, std::move(bytes));
  if (changes_.size() > kKeptChanges) changes_.pop_front();
  published_.notify_all();
}

std::size_t Events::listeners() const {
  const std::lock_guard lock(mutex_);
  return listeners_;
}

void Events::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  published_.notify_all();
}

Events::Listener::Listener(Events& events, std::function<void()> asked, std::string first)
    : events_(events), asked_(std::move(asked)), end_(Steady::now() + kLongestStream), first_(std::move(first)) {
  const std::lock_guard lock(events_.mutex_);
  documents_ = events_.documents_;
  last_change_ = events_.last_change_;
}

Events::Listener::~Listener() {
  const std::lock_guard lock(events_.mutex_);
  --events_.listeners_;
}

std::string Events::Listener::next() {
  if (!first_.empty()) return std::exchange(first_, {});
  for (int tick = 0; tick < kSilentTicks; ++tick) {
    asked_();
    std::unique_lock lock(events_.mutex_);
    events_.published_.wait_for(lock, kEventTick, [this] {
      return events_.stopped_ || events_.documents_ != documents_ || events_.last_change_ != last_change_;
    });
    if (events_.stopped_ || Steady::now() >= end_) return "";
    std::string bytes;
    for (const auto& [number, change] : events_.changes_) {
      if (number > last_change_) bytes += *change;
    }
    if (events_.documents_ != documents_) bytes += *events_.queues_;
    last_change_ = events_.last_change_;
    documents_ = events_.documents_;
    if (!bytes.empty()) return bytes;
  }
  return ": nothing new\n\n";
}

}  // namespace dqctl
