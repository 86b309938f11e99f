// Plays the seeds of reply_fuzz.cc, without libFuzzer: a reply that has got another form must not leave seeds behind
// that end in an error before most of their fields are read.
//
//   fuzz_seeds FOLDER
//
// Fails if a seed ends in an error and its name does not begin with bad_, or the other way round, and if a request has
// no seed without error.
#include "fuzz/reply_fuzz.cc"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>

namespace {

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The errors of a seed. A seed without requests listens until the server closes the connection.
std::vector<std::string> errors_of(Played played) {
  const bool listens = played.moves.empty() && !played.errors.empty();
  if (listens && played.errors.back() == "the server closed the connection") played.errors.pop_back();
  return std::move(played.errors);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  int wrong = 0;
  std::set<std::size_t> good;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
    const std::string name = file.path().filename().string();
    const Played played = play(bytes_of_file(file.path()));
    const std::vector<std::string> errors = errors_of(played);
    if (errors.empty()) good.insert(played.moves.begin(), played.moves.end());
    if (errors.empty() == (name.rfind("bad_", 0) != 0)) continue;
    ++wrong;
    std::cerr << name << ": " << (errors.empty() ? "no error" : errors.front()) << '\n';
  }
  for (std::size_t move = 0; move < kMoves.size(); ++move) {
    if (good.count(move) > 0) continue;
    ++wrong;
    std::cerr << "no seed for the request " << move << " of kMoves\n";
  }
  return wrong == 0 ? 0 : 1;
}
