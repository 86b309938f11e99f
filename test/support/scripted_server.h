// A server whose replies the test computes.
#pragma once

#include "embedded/server_process.h"
#include "support/local.h"

namespace test {

class ScriptedServer {
 public:
  // Returns the reply to a command, in RESP; empty: no reply. Called by the threads of the links, one call at a time.
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
  std::mutex mutex_;  // guards the members below; held while answer_ runs
  bool ended_ = false;
  std::list<delayqueue::Descriptor> links_;
  std::list<std::thread> threads_;
  std::thread thread_;
};

// RESP encodings.
std::string bulk(const std::string& text);
std::string array(const std::vector<std::string>& elements);  // elements: RESP values

// The reply of a healthy server to HELLO.
std::string hello(const std::string& version = "7.0.15");

}  // namespace test
