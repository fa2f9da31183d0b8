#include "troupe/session.h"
#include "troupe/variable.h"
#include "troupe/gradients.h"

int main() {
  auto session = troupe::Session::Create();
  return session.ok() && (*session)->Close().ok() ? 0 : 1;
}
