// Validation of options. Each function throws std::invalid_argument that names the field and its value.
#pragma once

#include "store/moves.h"
#include "store/record.h"

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>
#include <delayqueue/message.h>
#include <delayqueue/producer.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// The longest duration, a hundred years. A longer one is a mistake, and would overflow the nanoseconds of a steady
// clock.
inline constexpr milliseconds kLongest{100LL * 365 * 24 * 3'600'000};

// The most that run handlers of one consumer.
inline constexpr std::size_t kMostThreads = 10'000;

void validate(const ClientOptions& options);
void validate(const KeyOptions& keys, bool hash_tag);
void validate(const ProducerOptions& options);

// Checks the name of any queue; `hash_tag`: its keys have one.
void check_queue(const std::string& queue, bool hash_tag);

// Checks the name of a queue that the caller may create. Inspector and QueueAdmin accept any name that is there: so a
// queue of an earlier version, or of another program, can be read, emptied and forgotten.
void check_new_queue(const std::string& queue, const std::string& prefix);

void validate(const ConsumerOptions& options, bool settles_later);  // true: with a handler of a Delivery
void check_at_least(const char* field, milliseconds value, milliseconds least);

// Validates and converts the due time of a send or reschedule.
store::Due due_of(milliseconds delay, const std::optional<std::chrono::system_clock::time_point>& at);

// Checks the time of a message: see store::kLatestUs.
void check_time(const char* field, milliseconds since_1970);

// Refuses reserved names, which a received message may have, and returns the headers of a send in their stored form.
std::string packed_headers(const Headers& headers);

// Checks the payload of a send, and its options, without the headers.
void check_payload(std::string_view payload, const ProducerOptions& producer);
store::SendTerms terms_of(const SendOptions& options, const ProducerOptions& producer);

// Checks a unique key, and the options of a send with one.
void check_key(const char* field, std::string_view key);
std::optional<store::KeyTerms> key_terms_of(const UniqueOptions& unique);

// Validates ids and returns them in canonical form. Refuses keys.
std::string id_of(const char* field, std::string_view id);
std::string id_of(const SendOptions& options);  // empty: the library makes one
std::string id_of(const MessageRef& message);
std::vector<std::string> ids_of(const MessageRefs& messages);

}  // namespace delayqueue
