// Queues for dqctl to look at, on server().
#pragma once

#include <delayqueue/inspector.h>

#include <chrono>
#include <string>
#include <vector>

namespace test {

// Emptied of all that other tests left.
void empty_server();

std::vector<std::string> send(const std::string& queue, const std::vector<std::string>& payloads,
                              std::chrono::milliseconds delay = std::chrono::milliseconds(0));

// Sent, and given up by hand.
std::vector<std::string> bury(const std::string& queue, const std::vector<std::string>& payloads,
                              const std::string& reason);

// As if a consumer held it, for so much longer (or ago), for the nth time. Payload "held".
std::string hold(const std::string& queue, std::chrono::milliseconds left, int deliveries = 1,
                 const std::string& reason = "");

// A UUIDv7 as if made so long ago (less than 0: in the future), by this machine's clock. Other numbers make other ids.
std::string id_made(std::chrono::milliseconds ago, int number = 1);

// payload 0, payload 1 ...
std::vector<std::string> numbered(int count);

}  // namespace test
