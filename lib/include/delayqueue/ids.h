// Ids for callers that must know the id of a message before they send it: see docs/outbox.md.
#pragma once

#include <delayqueue/detail/braces.h>
#include <delayqueue/export.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace delayqueue {

// A new id: a UUID of version 7, of the current time. Any thread may call it. Throws SetupError if the system provides
// no random bytes. In a queue with partitions messages with such ids are in partition 0: see SendOptions::id.
[[nodiscard]] DELAYQUEUE_EXPORT std::string new_id();

// The namespace of id_from_name(), unless the caller has one.
inline constexpr char kIdNamespace[] = "5d0c3c1b-4a8e-5f0f-9d3a-0f5b7f2f6c11";

// The id of a name, such as "order 42 is not paid": a UUID of version 5, the same for each call with this name and this
// namespace, a UUID. So a program that has lost an id can make it again. Throws std::invalid_argument if the namespace
// is no UUID. The partition is that of new_id().
[[nodiscard]] DELAYQUEUE_EXPORT std::string id_from_name(std::string_view name,
                                                         std::string_view name_space = kIdNamespace);

// {"a", "b"} would be one std::string_view of two pointers.
template <std::size_t kLength, class = internal::IfSeveral<kLength>>
std::string id_from_name(const char* const (&names)[kLength], std::string_view = {}) = delete;

}  // namespace delayqueue
