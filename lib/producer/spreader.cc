#include "producer/spreader.h"

#include "redis/reply.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

// The outcome of a reschedule, and the marker that it may have left in its partition.
struct Rescheduled {
  std::string outcome;
  std::optional<std::string> marker;
};

struct RescheduleAnswer {
  redis::Answer<std::string> outcome;
  std::optional<redis::Answer<std::optional<std::string>>> marker;

  Rescheduled get() const {
    Rescheduled all{outcome.get(), std::nullopt};
    try {
      if (marker) all.marker = marker->get();
    } catch (const Error&) {  // the user may not take it
    }
    return all;
  }
};

}  // namespace

Spreader::Spreader(const std::string& url, const std::string& queue, const ProducerOptions& options,
                   const EventSink& sink)
    : busy_wait_(options.busy_wait),
      name_crc_(store::name_crc(queue, options.queue.prefix)),
      has_one_partition_(options.queue.go.bodies_under_dp),
      home_(url, queue, options, hooks(0)),
      keeper_(queue, home_.connection.endpoint().key_options(),
              [this](unsigned number, const auto& call) {
                partition(number).connection.with_connection([&](redis::Connection& connection) { call(connection); });
              }),
      markers_(home_.connection, breaker_),
      part_sender_(
          {[this](unsigned number) -> ProducerPartition& { return partition(number); }, [this] { return count(); }},
          name_crc_, breaker_, markers_),
      breaker_({[this](unsigned number) { return partition(number).connection.endpoint().server(); },
                [this](unsigned number) { return probe(number); }},
               sink) {}

Spreader::~Spreader() = default;

// ---- The partitions -------------------------------------------------------------------------------------------------

ProducerPartition& Spreader::partition(unsigned number) {
  if (number == 0) return home_;
  const std::lock_guard lock(partitions_mutex_);
  const auto found = partitions_.find(number);
  if (found != partitions_.end()) return found->second;
  return partitions_.try_emplace(number, home_.connection, number, busy_wait_, hooks(number)).first->second;
}

// Partitions 0 and 1 have the copies of the layout that count.
GroupCommit::Hooks Spreader::hooks(unsigned number) {
  GroupCommit::Hooks hooks;
  hooks.prepare = [this, number](redis::Connection& connection) { prepare(number, connection); };
  if (number <= 1) hooks.on_layout = [this, number](const store::Layout& copy) { keeper_.remember(number, copy); };
  if (number > 0) hooks.on_marker = [this, number](std::string due) { markers_.add(number, std::move(due)); };
  return hooks;
}

// The number of partitions that messages are sent to.
unsigned Spreader::count() const { return has_one_partition_ ? 1 : keeper_.partitions(); }

// The queue has the partitions that partition 0 tells. If that has lost its copy, messages go to partition 0 until
// another client has restored it, and consumers serve that partition in any case. So a queue without partitions needs
// no other server.
void Spreader::read_first_layout() {
  try {
    read_copy(0);
  } catch (const ConnectionError&) {
    if (has_one_partition_ || home_.connection.endpoint().server().empty()) throw;
    try {
      read_copy(1);  // may be on another server
    } catch (const Error&) {
    }
    if (count() == 1) throw;
  }
  knows_layout_ = true;
}

void Spreader::read_copy(unsigned number) {
  ProducerPartition& read = partition(number);
  read.connection.with_connection([](redis::Connection&) {});  // which reads it when it verifies the queue
  keeper_.remember(number, read.connection.endpoint().layout());
  read.has_copy = true;
}

// Before a partition is used: by their copies of the layout, partitions can be told from other queues.
void Spreader::prepare(unsigned number, redis::Connection& connection) {
  if (number == 0 && count() == 1) return;
  if (ProducerPartition& used = partition(number); !used.has_copy.exchange(true)) {
    keeper_.remember(number, used.connection.endpoint().layout());
  }
  try {
    keeper_.copy_to(number, connection);
  } catch (const ReplyError&) {
    if (number > 0) throw;  // partition 0 can be used without
  }
}

// The first key exists, and the second one never does: so this is refused as the moves are while the slot migrates.
CircuitBreaker::Probe Spreader::probe(unsigned number) {
  try {
    Endpoint& endpoint = partition(number).connection.endpoint();
    const auto connection = endpoint.connect();
    redis::Pipeline pipeline(*connection);
    pipeline.command("EXISTS").key(endpoint.keys().settings).key(endpoint.keys().staged, "probe");
    pipeline.run();
    pipeline.reply(0);
    return CircuitBreaker::Probe::succeeded;
  } catch (const redis::SlotUnavailable&) {
    return CircuitBreaker::Probe::refused;
  } catch (const ConnectionError&) {
    return CircuitBreaker::Probe::failed;
  } catch (const std::exception&) {
    return CircuitBreaker::Probe::refused;
  }
}

unsigned Spreader::named_by(const std::string& id) const {
  return has_one_partition_ ? 0 : store::partition_of(id, name_crc_).value_or(0);
}

unsigned Spreader::partition_of(const std::string& id) {
  return named_by(id) == 0 ? 0 : keeper_.partitions_of({id}).front();
}

SharedConnection& Spreader::connection_of(const std::string& id) {
  const unsigned named = named_by(id);
  return partition(named < keeper_.known().top ? named : 0).connection;
}

// ---- Calls by id ----------------------------------------------------------------------------------------------------

std::string Spreader::cancel(const std::string& id) {
  SharedConnection& connection = partition(partition_of(id)).connection;
  return connection.ask([&](redis::Pipeline& pipeline) { return connection.store().cancel(pipeline, id); },
                        [](const std::string& state) { return state != "unknown" && state != "unack"; });
}

std::string Spreader::reschedule(const std::string& id, const store::Due& due) {
  const unsigned number = partition_of(id);
  SharedConnection& connection = partition(number).connection;
  const auto add = [&](redis::Pipeline& pipeline) {
    RescheduleAnswer answers{connection.store().reschedule(pipeline, id, due), std::nullopt};
    if (number > 0) answers.marker = connection.store().take_marker(pipeline);
    return answers;
  };
  Rescheduled answer = connection.ask(add, [](const Rescheduled& done) { return done.outcome == "moved"; });
  if (answer.marker) {
    markers_.add(number, std::move(*answer.marker));
    markers_.forward();
  }
  return answer.outcome;
}

// ---- Sending --------------------------------------------------------------------------------------------------------

std::string Spreader::new_id() const { return std::move(store::new_ids(1, {name_crc_, 0}).front()); }

void Spreader::send(std::vector<SendRequest>& requests) {
  try {
    if (!knows_layout_) read_first_layout();
  } catch (...) {
    for (SendRequest& request : requests) fail(request, std::current_exception());
    return;
  }
  if (count() > 1 || !all_at_home(requests)) {
    part_sender_.send(parts_of(requests));
  } else {
    for (SendRequest& request : requests) add_ids(request);
    home_.commit().send(requests);
  }
  for (SendRequest& request : requests) {
    try {
      add_ids(request);  // where GroupCommit has cleared them
    } catch (...) {      // no random bytes
      request.fail(std::current_exception());
    }
  }
}

bool Spreader::all_at_home(const std::vector<SendRequest>& requests) const {
  return std::all_of(requests.begin(), requests.end(), [&](const SendRequest& request) {
    for (std::size_t i = 0; i < request.messages.size(); ++i) {
      if (!request.messages[i].terms->fresh && named_by(request.sent[i].id) != 0) return false;
    }
    return true;
  });
}

// Nothing of the request was sent.
void Spreader::fail(SendRequest& request, const std::exception_ptr& error) const {
  add_ids(request);  // which the caller needs to repeat the send
  request.fail(redis::copy_of(error));
}

// Ids of partition 0, for the messages that have none.
void Spreader::add_ids(SendRequest& request) const {
  const auto lacks_id = [](const Sent& one) { return one.id.empty(); };
  const auto count = std::count_if(request.sent.begin(), request.sent.end(), lacks_id);
  std::vector<std::string> ids = store::new_ids(static_cast<std::size_t>(count), {name_crc_, 0});
  auto next = ids.begin();
  for (Sent& one : request.sent) {
    if (one.id.empty()) one.id = std::move(*next++);
  }
}

// Fails the requests that have an id whose partition cannot be told, and no others.
std::vector<Part> Spreader::parts_of(std::vector<SendRequest>& requests) {
  std::vector<Part> parts;
  for (SendRequest& request : requests) {
    try {
      std::vector<Part> of_request = parts_of(request);
      std::move(of_request.begin(), of_request.end(), std::back_inserter(parts));
    } catch (...) {
      fail(request, std::current_exception());
    }
  }
  return parts;
}

// Does not change the request.
std::vector<Part> Spreader::parts_of(SendRequest& whole) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < whole.messages.size(); ++i) {
    const PendingMessage& message = whole.messages[i];
    const bool spreads = message.terms->fresh;
    const unsigned partition = spreads ? 0 : partition_of(whole.sent[i].id);
    const auto latest = std::find_if(parts.rbegin(), parts.rend(), [&](const Part& part) {
      return part.spreads == spreads && part.partition == partition;
    });
    if (latest != parts.rend() && latest->has_room(message.size())) {
      latest->add(i);
    } else {
      parts.push_back({&whole, spreads, partition});
      parts.back().request.bodies_first = whole.bodies_first;
      parts.back().add(i);
    }
  }
  for (Part& part : parts) {
    if (part.spreads) part_sender_.choose_partition(part);
  }
  return parts;
}

}  // namespace delayqueue
