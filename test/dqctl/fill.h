// Functions that fill queues of server() for the tests of dqctl.
#pragma once

#include "support/server.h"

namespace test {

// Removes all keys from server().
void empty_server();

// The queue may have a name that Producers refuse: earlier versions sent to any.
std::vector<std::string> send(const std::string& queue, const std::vector<std::string>& payloads,
                              std::chrono::milliseconds delay = std::chrono::milliseconds(0));

// Sends the payloads and makes the messages dead letters with this reason. Returns their ids.
std::vector<std::string> make_dead(const std::string& queue, const std::vector<std::string>& payloads,
                                   const std::string& reason);

// Stores so many dead letters in the queue q of an empty server. Sending a million would take long.
void fill_dead(Redis& client, int count);

// The most memory that dqctl may take for a queue of a million messages.
constexpr long kMostKib = 50 * 1024;

// Makes a message with the payload "held" as a consumer holds it: its lease ends after `left` (less than 0: has ended),
// at this delivery.
std::string hold(const std::string& queue, std::chrono::milliseconds left, int deliveries = 1,
                 const std::string& reason = "");

// A UUIDv7 whose time is `ago` before now (less than 0: after now) by this machine's clock. `number` makes ids differ.
std::string id_made(std::chrono::milliseconds ago, int number = 1);

// The payloads "payload 0", "payload 1" and so on.
std::vector<std::string> numbered(int count);

}  // namespace test
