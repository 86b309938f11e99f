// A temporary folder and a TCP port for this process alone.
#pragma once

#include "embedded/server_process.h"
#include "embedded/temporary_folder.h"
#include "support/standard.h"

namespace test {

// A new folder, removed with its contents. The next PrivateServer removes the folder of a killed process.
class TempDir {
 public:
  std::string file(const std::string& name) const { return folder_.path() / name; }

 private:
  const delayqueue::TemporaryFolder folder_;
};

// The permissions of a file; 0: it does not exist.
unsigned mode_of(const std::string& path);

// A port of 127.0.0.1 that the system gives to no other process while this object exists, even while nothing listens on
// it: a restarted server finds it free. The listening socket must set SO_REUSEADDR, as redis-server does.
class Port {
 public:
  Port();

  int number() const { return number_; }

 private:
  delayqueue::Descriptor bound_;
  int number_ = 0;
};

// Returns a listening socket. Throws std::runtime_error.
delayqueue::Descriptor listen_on(const Port& port);
delayqueue::Descriptor listen_on(const std::string& path);

}  // namespace test
