// A folder and a port that belong to this process alone.
#pragma once

#include <string>

#include "embedded/server_process.h"
#include "embedded/temporary_folder.h"

namespace test {

// A new folder, removed with all it holds. What a killed process leaves is removed by the next PrivateServer.
class TempDir {
 public:
  std::string file(const std::string& name) const { return folder_.path() / name; }

 private:
  const delayqueue::TemporaryFolder folder_;
};

// A port of 127.0.0.1 that no other process is given while this lives, listening or not: a server that dies finds it
// free again. Whoever listens on it has to set SO_REUSEADDR first, as redis-server does.
class Port {
 public:
  Port();

  int number() const { return number_; }

 private:
  delayqueue::Descriptor bound_;
  int number_ = 0;
};

// A socket that listens there. Throws std::runtime_error.
delayqueue::Descriptor listen_on(const Port& port);
delayqueue::Descriptor listen_on(const std::string& path);

}  // namespace test
