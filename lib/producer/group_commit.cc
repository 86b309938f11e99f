#include "producer/group_commit.h"

#include <semaphore.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kStepBytes = 256 * 1024;
// A flight is one write and one read. Short, for those who wait; long enough for what it costs.
constexpr std::size_t kFlightBytes = 4 * kStepBytes;
constexpr std::size_t kFlightMessages = 4 * store::kBatch;
constexpr std::size_t kFlightSteps = 32;
constexpr std::size_t kFlights = 2;  // under way: Redis works on one while the next is made

bool same_terms(const store::SendTerms& a, const store::SendTerms& b) {
  return &a == &b || (a.due.delay == b.due.delay && a.due.at_ms == b.due.at_ms && a.retries == b.retries &&
                      a.ttl == b.ttl && a.fresh == b.fresh);
}

bool is_in_doubt(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ReplyError&) {
    return false;
  } catch (...) {
    return true;
  }
}

std::exception_ptr in_doubt(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ReplyError& e) {
    return std::make_exception_ptr(ConnectionError(e.what()));
  } catch (...) {
    return error;
  }
}

// Messages of a parcel that go together.
struct Part {
  Parcel* parcel;
  std::size_t begin, end;
  std::size_t bytes;
};

Part next_part(Parcel& parcel) {
  Part part{&parcel, parcel.loaded, parcel.loaded, 0};
  const store::SendTerms& terms = *parcel.messages[part.begin].terms;
  for (; part.end < parcel.messages.size() && part.end - part.begin < store::kBatch; ++part.end) {
    const Outgoing& message = parcel.messages[part.end];
    const std::size_t size = message.payload.size();
    if (part.end > part.begin && (part.bytes + size > kStepBytes || !same_terms(*message.terms, terms))) break;
    part.bytes += size;
  }
  return part;
}

// One script call.
struct Step {
  const store::SendTerms* terms;
  std::vector<Part> parts{};
  std::size_t messages = 0;
  std::size_t bytes = 0;

  bool has_room(const Part& part) const {
    return messages + (part.end - part.begin) <= store::kBatch && bytes + part.bytes <= kStepBytes;
  }

  void add(const Part& part) {
    parts.push_back(part);
    messages += part.end - part.begin;
    bytes += part.bytes;
  }
};

// Of a failure that concerns several threads each has its own, text and all.
std::exception_ptr copy_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionError& e) {
    return std::make_exception_ptr(ConnectionError(std::string(e.what())));
  } catch (const redis::AccessError& e) {
    return std::make_exception_ptr(redis::AccessError(std::string(e.what())));
  } catch (const ReplyError& e) {
    return std::make_exception_ptr(ReplyError(std::string(e.what())));
  } catch (const SetupError& e) {
    return std::make_exception_ptr(SetupError(std::string(e.what())));
  } catch (const std::invalid_argument& e) {
    return std::make_exception_ptr(std::invalid_argument(std::string(e.what())));
  } catch (...) {
    return error;
  }
}

}  // namespace

// One thread's parcels, and how it is woken: once they are done, or to lead.
struct Call {
  Call() {
    if (::sem_init(&bell, 0, 0) != 0) throw std::system_error(errno, std::generic_category(), "sem_init");
  }
  ~Call() { ::sem_destroy(&bell); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void wait() {
    while (::sem_wait(&bell) != 0 && errno == EINTR) {
    }
  }

  sem_t bell;  // no condition variable: whoever is woken must not wait for a mutex of him who wakes
  bool leads = false;
  Call* next_done = nullptr;
  std::size_t left = 0;      // parcels that are not done
  std::size_t unloaded = 0;  // parcels with messages to load
  std::uint64_t flight = 0;  // that took some of them last,
  std::size_t step = 0;      // and in which step: what comes later must not overtake it
};

struct Outbox::Flight {
  std::vector<Step> steps;
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<redis::Pipeline> pipeline;
  std::vector<redis::Answer<store::Outcomes>> answers;
  std::vector<redis::Answer<bool>> first;  // see Store::is_first
  Durable::Asked durable;
};

Outbox::~Outbox() = default;

void Parcel::check() const {
  if (error == nullptr) return;
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionError& e) {
    std::vector<std::string> ids;
    ids.reserve(sent.size());
    for (const Sent& one : sent) ids.push_back(one.id);
    throw ConnectionError(e.what(), std::move(ids));
  }
}

void Outbox::send(std::vector<Parcel>& parcels) {
  Call call;
  call.left = call.unloaded = parcels.size();
  std::vector<Parcel*> line;
  line.reserve(parcels.size());
  for (Parcel& parcel : parcels) {
    parcel.call = &call;
    line.push_back(&parcel);
  }
  std::unique_lock lock(mutex_);
  waiting_.insert(waiting_.end(), line.begin(), line.end());
  if (led_) {
    lock.unlock();
    call.wait();
    if (!call.leads) return;
    lock.lock();
  }
  led_ = call.leads = true;
  while (call.left > 0) {
    lock.unlock();
    wake_done();
    lead(call);
    lock.lock();
  }
  Call* const next = waiting_.empty() ? nullptr : waiting_.front()->call;
  Call* const done = std::exchange(done_, nullptr);
  led_ = next != nullptr;
  if (next != nullptr) next->leads = true;
  lock.unlock();
  if (next != nullptr) ::sem_post(&next->bell);  // first: meanwhile nobody sends
  wake(done);
}

void Outbox::wake_done() {
  std::unique_lock lock(mutex_);
  Call* const done = std::exchange(done_, nullptr);
  lock.unlock();
  wake(done);
}

void Outbox::wake(Call* done) {
  while (done != nullptr) {
    Call* const call = std::exchange(done, done->next_done);
    ::sem_post(&call->bell);  // it may be gone by now
  }
}

void Outbox::lead(Call& call) {
  bool connected = false;
  try {
    session_.with_connection([&](redis::Connection& connection) {
      connected = true;
      std::deque<Flight> flights;  // gone before the connection is
      try {
        fly(call, connection, flights);
      } catch (...) {
        fail(flights);
        throw;
      }
      announce_first(connection);
    });
  } catch (...) {  // told to those whom it concerns
    if (!connected) fail_all_who_wait();
  }
}

// The queue may have been forgotten since this process connected.
void Outbox::announce_first(redis::Connection& connection) {
  std::unique_lock lock(mutex_);
  if (!std::exchange(first_, false)) return;
  lock.unlock();
  session_.endpoint().announce(connection);
}

// Until nothing of ours is left to load, or others want the connection.
void Outbox::fly(Call& call, redis::Connection& connection, std::deque<Flight>& flights) {
  bool more = true;
  do {
    while (more && flights.size() < kFlights) {
      more = load(flights.emplace_back(), call) && !session_.is_wanted();
      if (flights.back().steps.empty()) {
        flights.pop_back();
      } else {
        launch(flights.back(), connection);
      }
    }
    if (flights.empty()) return;
    bool resent = true;
    while (resent && !flights.empty()) {
      land(flights.front(), connection);
      resent = flights.front().pipeline->resent();  // those behind will be, too, and must not be overtaken
      flights.pop_front();
    }
    if (more || !flights.empty()) wake_done();
  } while (more || !flights.empty());
}

// What there is room for, of each parcel in its turn. Whether more of this call is left to load.
bool Outbox::load(Flight& flight, const Call& call) {
  const std::lock_guard lock(mutex_);
  ++flights_;
  while (!waiting_.empty() && add_step(flight, *waiting_.front())) {
    Parcel& parcel = *waiting_.front();
    waiting_.pop_front();
    if (parcel.loaded < parcel.messages.size()) {
      waiting_.push_back(&parcel);
    } else {
      --parcel.call->unloaded;
    }
  }
  return call.unloaded > 0;
}

// False: it does not fit any more. What is larger than a step has a flight of its own, since the server may refuse it
// by hanging up.
bool Outbox::add_step(Flight& flight, Parcel& parcel) {
  const Part part = next_part(parcel);
  const store::SendTerms& terms = *parcel.messages[part.begin].terms;
  if (!flight.steps.empty()) {
    if (part.bytes > kStepBytes || flight.steps.front().bytes > kStepBytes) return false;
    if (flight.bytes + part.bytes > kFlightBytes) return false;
    if (flight.messages + (part.end - part.begin) > kFlightMessages) return false;
  }
  Call& call = *parcel.call;
  const std::size_t first = call.flight == flights_ ? call.step : 0;
  const auto fits = [&](const Step& step) { return same_terms(*step.terms, terms) && step.has_room(part); };
  auto step = std::find_if(flight.steps.begin() + static_cast<std::ptrdiff_t>(first), flight.steps.end(), fits);
  if (step == flight.steps.end()) {
    if (flight.steps.size() == kFlightSteps) return false;
    flight.steps.push_back({&terms});
    step = flight.steps.end() - 1;
  }
  step->add(part);
  flight.messages += part.end - part.begin;
  flight.bytes += part.bytes;
  parcel.loaded = part.end;
  ++parcel.on_way;
  call.flight = flights_;
  call.step = static_cast<std::size_t>(step - flight.steps.begin());
  return true;
}

void Outbox::launch(Flight& flight, redis::Connection& connection) const {
  const store::Store& store = session_.store();
  redis::Pipeline& pipeline = flight.pipeline.emplace(connection);
  std::vector<store::NewMessage> messages;
  for (const Step& step : flight.steps) {
    messages.clear();
    for (const Part& part : step.parts) {
      for (std::size_t i = part.begin; i < part.end; ++i) {
        messages.push_back({part.parcel->sent[i].id, part.parcel->messages[i].payload});
      }
    }
    flight.answers.push_back(store.send(pipeline, messages, *step.terms));
    flight.first.push_back(store::Store::is_first(pipeline));
  }
  flight.durable = session_.durable().ask(pipeline);
  pipeline.send();
}

void Outbox::land(Flight& flight, redis::Connection& connection) {
  flight.pipeline->receive();
  const std::string missing = session_.durable().missing(flight.durable);
  std::exception_ptr broken;  // the link is of no use any more, or the server is not the one to ask
  const std::lock_guard lock(mutex_);
  const std::vector<Step> steps = std::exchange(flight.steps, {});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::exception_ptr error;
    store::Outcomes outcomes;
    try {
      outcomes = flight.answers[i].get();
      if (outcomes.size() != steps[i].messages) {
        throw ReplyError("send: the server answered for another number of messages");
      }
      first_ = first_ || flight.first[i].get();
      if (!missing.empty()) throw ConnectionError("sent to " + connection.where() + ", but " + missing);
    } catch (const ReplyError&) {
      error = std::current_exception();
    } catch (...) {
      error = broken = std::current_exception();
    }
    std::size_t next = 0;
    for (const Part& part : steps[i].parts) {
      for (std::size_t k = part.begin; k < part.end && !error; ++k) {
        part.parcel->sent[k].created = outcomes[next] == '1';
        part.parcel->sent[k].cancelled = outcomes[next++] == 'C';
      }
      finish_step(*part.parcel, error);
    }
  }
  if (broken != nullptr) std::rethrow_exception(broken);
}

// This and the next are to be called with what went wrong in hand. What was launched may have been stored, whatever it
// was: another node that refuses us, for example.
void Outbox::fail(const std::deque<Flight>& flights) {
  const std::exception_ptr error = in_doubt(std::current_exception());
  const std::lock_guard lock(mutex_);
  for (const Flight& flight : flights) {
    for (const Step& step : flight.steps) {
      for (const Part& part : step.parts) finish_step(*part.parcel, error);
    }
  }
}

// Those who waited while another's attempt to connect failed have failed with it: a silent server must not cost each
// its time.
void Outbox::fail_all_who_wait() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    Parcel& parcel = *waiting_.front();
    parcel.error = copy_of(std::current_exception());
    finish(parcel);
  }
}

void Outbox::finish_step(Parcel& parcel, const std::exception_ptr& error) {
  --parcel.on_way;
  // Of two failures the one that leaves something in doubt: it has the ids.
  if (error != nullptr && (parcel.error == nullptr || is_in_doubt(error))) parcel.error = copy_of(error);
  finish(parcel);
}

// What failed is not sent any further.
void Outbox::finish(Parcel& parcel) {
  if (parcel.error != nullptr && parcel.loaded < parcel.messages.size()) {
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &parcel), waiting_.end());
    parcel.loaded = parcel.messages.size();
    --parcel.call->unloaded;
  }
  if (parcel.on_way > 0 || parcel.loaded < parcel.messages.size()) return;
  Call& call = *parcel.call;
  if (--call.left > 0 || call.leads) return;
  call.next_done = std::exchange(done_, &call);
}

}  // namespace delayqueue
