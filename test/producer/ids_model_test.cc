// Random calls by id of several Producers, while the number of partitions changes and the layout is lost or rolled
// back, against a model that knows only which ids are alive. Producers read the layout every ten seconds, so nearly all
// calls are made with an old one. After every step each id that is alive is in one partition, and no other id is in
// any; in the end a consumer gets each message once.
//
// DELAYQUEUE_SEEDS=n runs n sequences; DELAYQUEUE_SEED=n runs only sequence n.
#include "support/test.h"

#include "store/keys.h"
#include "support/model_runs.h"

namespace delayqueue {
namespace {

using test::redis;
using test::model::demand;

constexpr unsigned kMost = 32;  // partitions

class IdsPlay {
 public:
  explicit IdsPlay(std::uint64_t seed) : random_(seed), producers_(4) {
    for (auto& producer : producers_) producer = std::make_unique<Producer>(test::server().url(), queue_);
    for (unsigned i = 0; i < kMost; ++i) keys_.push_back(store::make_keys(queue_, {}, i));
    for (int i = 0; i < 6; ++i) own_.push_back("0000000" + std::to_string(i) + "-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    past_.resize(2);
    remember_copies();
  }

  void step() {
    struct Kind {
      std::size_t weight;
      void (IdsPlay::*act)();
    };
    static constexpr Kind kKinds[] = {{10, &IdsPlay::send},      {6, &IdsPlay::send_own},  {8, &IdsPlay::repeat},
                                      {4, &IdsPlay::send_batch}, {6, &IdsPlay::cancel},    {4, &IdsPlay::reschedule},
                                      {6, &IdsPlay::set},        {3, &IdsPlay::lose_copy}, {3, &IdsPlay::roll_back},
                                      {4, &IdsPlay::resume},     {3, &IdsPlay::restart}};
    (this->*random_.weighted(kKinds).act)();
    check();
    remember_copies();
  }

  void drain() {
    std::mutex mutex;
    std::map<std::string, int> delivered;
    ConsumerOptions options;
    options.tuning.poll_interval = 50ms;
    options.logger = no_log();
    Consumer consumer(
        test::server().url(), queue_,
        [&](const Message& message) {
          const std::lock_guard lock(mutex);
          ++delivered[message.id()];
          return ack();
        },
        options);
    consumer.start();
    const auto all = [&] {
      const std::lock_guard lock(mutex);
      return delivered.size() >= alive_.size();
    };
    demand(test::eventually(all, test::kPatience), "not every message was delivered");
    demand(consumer.stop(), "the consumer does not stop");
    for (const auto& [id, times] : delivered) {
      demand(times == 1 && alive_.count(id) == 1, "delivered " + std::to_string(times) + " times: " + id);
    }
    alive_.clear();
    check();
  }

  const std::vector<std::string>& log() const { return log_; }

 private:
  void log(const std::string& what) { log_.push_back(what); }

  Producer& any(const char* what) {
    const std::size_t i = random_.below(producers_.size());
    log("producer " + std::to_string(i) + ' ' + what);
    return *producers_[i];
  }
  // An id that was sent before, alive or not; empty: there is none yet.
  std::string known_id() { return known_.empty() ? "" : known_[random_.below(known_.size())]; }

  void sent(const std::string& wanted, const Sent& result) {
    log("  " + result.id + (result.created() ? " is new" : " was there"));
    demand(wanted.empty() || result.id == wanted, "sent with another id than the given one");
    demand(result.created() == (alive_.count(result.id) == 0), result.created() ? "made twice" : "swallowed");
    if (alive_.insert(result.id).second) known_.push_back(result.id);
  }
  void send_with(const std::string& id) {
    sent(id, any(id.empty() ? "sends" : "sends an id").send("x", with(&SendOptions::id, id)));
  }

  // ---- The steps ----

  void send() { send_with(""); }
  void send_own() { send_with(own_[random_.below(own_.size())]); }
  void repeat() { send_with(known_id()); }

  void send_batch() {
    std::vector<OutgoingMessage> batch;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < 6; ++i) {
      OutgoingMessage message{"x", {}};
      const std::string id = random_.one_in(2) ? "" : random_.one_in(2) ? known_id() : own_[random_.below(own_.size())];
      if (!id.empty() && !ids.insert(id).second) continue;
      message.options.id = id;
      batch.push_back(message);
    }
    const std::vector<Sent> results = any("sends a batch").send_batch(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) sent(batch[i].options.id, results.at(i));
  }

  void cancel() {
    const std::string id = known_id();
    if (id.empty()) return;
    const State state = any("cancels").cancel(id);
    log("  " + id + ' ' + to_string(state));
    demand((state != State::unknown) == (alive_.erase(id) == 1), "cancelled: " + id + " is " + to_string(state));
  }

  void reschedule() {
    const std::string id = known_id();
    if (id.empty()) return;
    const Outcome moved = any("reschedules").reschedule(id, with(&RescheduleOptions::delay, 0ms));
    log("  " + id);
    demand((moved == Outcome::done) == (alive_.count(id) == 1), "not moved: " + id);
  }

  void set() {
    const auto number = static_cast<unsigned>(random_.of({1, 2, 4, 8, 16, 32}));
    log("an operator sets " + std::to_string(number));
    QueueAdmin(test::server().url(), queue_).set_partitions(number);
    damaged_.reset();
  }

  // It reads both copies, and restores one that is behind. A sender may use a queue with one copy, and an Inspector
  // changes nothing.
  void resume() {
    log("an operator resumes");
    QueueAdmin(test::server().url(), queue_).resume();
    damaged_.reset();
  }

  void restart() {
    const std::size_t i = random_.below(producers_.size());
    producers_[i] = std::make_unique<Producer>(test::server().url(), queue_);
    log("producer " + std::to_string(i) + " restarts");
  }

  // Only one copy is damaged until a client has read both: nothing can restore what both have lost at once.
  std::optional<unsigned> to_damage() {
    const auto copy = static_cast<unsigned>(random_.below(2));
    if (damaged_.value_or(copy) != copy) return std::nullopt;
    return damaged_ = copy;
  }

  void lose_copy() {
    const auto copy = to_damage();
    if (!copy) return;
    redis().cmd({"DEL", keys_[*copy].settings});
    log("copy " + std::to_string(*copy) + " is lost");
  }

  void roll_back() {
    const auto copy = to_damage();
    if (!copy) return;
    const std::vector<std::string>& past = past_[*copy][random_.below(past_[*copy].size())];
    redis().cmd({"DEL", keys_[*copy].settings});
    std::vector<std::string> words = {"HSET", keys_[*copy].settings};
    words.insert(words.end(), past.begin(), past.end());
    if (!past.empty()) redis().cmd(words);
    log("copy " + std::to_string(*copy) + " is rolled back");
  }

  void remember_copies() {
    for (const unsigned copy : {0U, 1U})
      past_[copy].push_back(redis().cmd({"HGETALL", keys_[copy].settings}).strings());
  }

  // ---- The promises ----

  void check() const {
    std::map<std::string, int> places;
    for (const store::Keys& keys : keys_) {
      for (const std::string& id : redis().cmd({"HKEYS", keys.count}).strings()) ++places[id];
    }
    for (const auto& [id, count] : places) {
      demand(count == 1, "alive in " + std::to_string(count) + " partitions: " + id);
      demand(alive_.count(id) == 1, "alive again: " + id);
    }
    demand(places.size() == alive_.size(), "lost");
  }

  const std::string queue_ = test::fresh_queue();
  test::model::Random random_;
  std::vector<std::unique_ptr<Producer>> producers_;
  std::vector<store::Keys> keys_;  // of each partition
  std::vector<std::string> own_;   // ids that no library made
  std::vector<std::string> known_;
  std::set<std::string> alive_;
  std::vector<std::vector<std::vector<std::string>>> past_;  // of each copy: its fields after each step
  std::optional<unsigned> damaged_;  // the copy that was damaged since a client has last read both
  std::vector<std::string> log_;
};

TEST_CASE("any sequence of calls by id with old layouts: none is made twice, swallowed, lost or left in a partition") {
  test::model::for_seeds(100, [](std::uint64_t seed) {
    test::model::play(IdsPlay(seed), seed, [](IdsPlay& game) {
      for (int i = 0; i < 50; ++i) game.step();
      game.drain();
    });
  });
}

}  // namespace
}  // namespace delayqueue
