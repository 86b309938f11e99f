// A server played by the test: it answers each command with what the test says.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "embedded/server_process.h"
#include "support/local.h"

namespace test {

class ScriptedServer {
 public:
  // The answer to a command, in RESP. Called in the threads of the links, one at a time. Empty: none comes.
  using Answer = std::function<std::string(const std::vector<std::string>& words)>;

  // Listens on 127.0.0.1.
  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int port() const { return port_.number(); }
  std::string host() const { return "127.0.0.1:" + std::to_string(port()); }

 private:
  void run();
  void serve(int fd);

  const Answer answer_;
  const Port port_;
  const delayqueue::Descriptor listening_;
  std::mutex mutex_;  // guards the rest, and is held while answer_ runs
  bool ended_ = false;
  std::list<delayqueue::Descriptor> links_;
  std::list<std::thread> threads_;
  std::thread thread_;
};

// In RESP.
std::string bulk(const std::string& text);
std::string array(const std::vector<std::string>& elements);  // of RESP

// The answer of a healthy server to HELLO.
std::string hello(const std::string& version = "7.0.15");

}  // namespace test
