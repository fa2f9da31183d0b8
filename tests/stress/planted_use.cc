// A program that reads a CAF message's content after the message is gone, built only to see that
// AddressSanitizer reports it although CAF is not compiled for it.
#include <caf/all.hpp>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<int>* content = nullptr;
  {
    caf::message message = caf::make_message(std::vector<int>{1, 2, 3});
    content = &message.get_as<std::vector<int>>(0);
  }
  std::printf("%zu\n", content->size());
}
