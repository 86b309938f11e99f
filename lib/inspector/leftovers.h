// Deletes what messages leave behind when they are removed: bodies in garbage, and ids in lists.
#pragma once

#include "queue/shared_connection.h"

#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

// Deletes the remains of these finished messages.
void collect(SharedConnection& shared_connection, const std::vector<std::string>& garbage);

// Deletes the remains of all finished messages.
void collect_all(SharedConnection& shared_connection);

// Removes ids without a message from the right end of a list, where ready2unack begins. Returns how many.
std::uint64_t remove_hints(SharedConnection& shared_connection, const std::string& list);

}  // namespace delayqueue
