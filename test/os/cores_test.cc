// When a thread may wait busily: the CPUs of this process, and the cores of the thread and of the server.
#include "support/test.h"

#include "os/cores.h"
#include "redis/socket.h"
#include "support/cores.h"
#include "support/local.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

double usable_cpus_with(const Files& files) {
  const test::TempDir root;
  for (const auto& [name, text] : files) {
    const std::filesystem::path file = root.file(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  return usable_cpus(root.file(""));
}

TEST_CASE("usable CPUs: the lowest quota of the control group and of those above it, in both versions") {
  const Files v1 = {{"proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n0::/\n"},
                    {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
                    {"sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n"}};
  const Files v2 = {{"proc/self/cgroup", "0::/a.slice/b.service\n"}, {"sys/fs/cgroup/a.slice/b.service/cpu.max", ""}};
  const struct {
    Files files, more;
    double quota;
  } cases[] = {
      {{{"proc/self/cgroup", "0::/\n"}}, {{"sys/fs/cgroup/cpu.max", "50000 100000\n"}}, 0.5},
      {v2, {{"sys/fs/cgroup/a.slice/b.service/cpu.max", "12500 50000\n"}}, 0.25},
      {v2, {{"sys/fs/cgroup/a.slice/cpu.max", "75000 100000\n"}}, 0.75},
      {v2, {{"sys/fs/cgroup/a.slice/cpu.max", "75000 100000\n"}, {"sys/fs/cgroup/cpu.max", "50000 100000\n"}}, 0.5},
      {v1, {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"}}, 0.5},
      {v1, {{"sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "25000\n"}}, 0.25},
  };
  for (const auto& one : cases) {
    Files files = one.files;
    files.insert(files.end(), one.more.begin(), one.more.end());
    CAPTURE(one.more.back().first);
    CHECK(usable_cpus_with(files) == one.quota);
  }
}

TEST_CASE("usable CPUs: without a quota, with a larger one, or with unreadable files, those of the machine") {
  const double machine = std::thread::hardware_concurrency();
  CHECK(usable_cpus_with({}) == machine);
  for (const char* text :
       {"max 100000\n", "1000000000 100\n", "", "max", "50000", "50000 0\n", "-1 100000\n", "x y\n"}) {
    CAPTURE(text);
    CHECK(usable_cpus_with({{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", text}}) == machine);
  }
  const Files v1 = {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                    {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  for (const char* groups : {"", "\n", "0\n", "0:\n", "0::\n", "4:cpu\n", "4:cpu:x\n", "4:cpuset:/\n", "4:cpu:/\n"}) {
    CAPTURE(groups);
    Files files = v1;
    files.emplace_back("proc/self/cgroup", groups);
    CHECK(usable_cpus_with(files) == machine);
    files.front().second = "50000\n";
    CHECK(usable_cpus_with(files) == (groups == std::string("4:cpu:/\n") ? 0.5 : machine));
  }
}

TEST_CASE("busy wait: allowed unless the thread and the server share their only core") {
  if (!test::has_two_cores()) return;
  const cpu_set_t all = test::cores_of(0);
  const cpu_set_t first = test::only(0, all);
  const cpu_set_t second = test::only(1, all);
  const auto deadline = redis::Clock::now() + test::kPatience;
  redis::Address address;
  address.path = test::server().socket();
  const auto by_unix_socket = redis::open_transport(address, nullptr, deadline);
  const test::FaultProxy proxy(address.path);
  address.host = "127.0.0.1";
  address.port = proxy.port();
  const auto by_tcp = redis::open_transport(address, nullptr, deadline);
  const struct {
    cpu_set_t own, server;
    bool may;
  } cases[] = {{first, first, false}, {first, second, true}, {first, all, true}, {all, first, true}, {all, all, true}};
  for (const auto& one : cases) {
    const test::Pinned server(test::server().pid(), one.server);
    const test::Pinned own(0, one.own);
    CAPTURE(CPU_COUNT(&one.own));
    CAPTURE(CPU_COUNT(&one.server));
    CHECK(may_wait_busily(by_unix_socket->fd()) == one.may);
    CHECK(may_wait_busily(by_tcp->fd()));
  }
}

}  // namespace
}  // namespace delayqueue
