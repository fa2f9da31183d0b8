#include "troupe/gradients.h"
#include "troupe/session.h"
#include "troupe/variable.h"

int main() {
  auto session = troupe::Session::Create();
  return session.ok() && (*session)->Close().ok() ? 0 : 1;
}
