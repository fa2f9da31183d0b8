#include "troupe/actors/session.h"
#include "troupe/graph/api/variable.h"
#include "troupe/graph/autodiff/gradients.h"

int main() {
  auto session = troupe::Session::Create();
  return session.ok() && (*session)->Close().ok() ? 0 : 1;
}
