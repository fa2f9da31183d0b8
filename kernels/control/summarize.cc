#include "kernels/control/summarize.h"

#include <algorithm>

#include "troupe/resource.h"
#include "troupe/strings.h"

namespace troupe::control {
namespace {

void AppendElement(std::string* out, const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) {
    out->append(CEscape(t.data<std::string>()[i]));
    return;
  }
  const bool known = VisitNumeric(t.dtype(), false, [&]<class T>() {
    const T v = t.data<T>()[i];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      StrAppend(out, static_cast<float>(v));
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      StrAppend(out, "(", v.real(), ",", v.imag(), ")");
    } else if constexpr (sizeof(T) == 1) {
      StrAppend(out, static_cast<int>(v));
    } else {
      StrAppend(out, v);
    }
    return true;
  });
  if (known) return;
  if (t.dtype() == DType::kResource) {
    const Resource* r = static_cast<const ResourceHandle*>(t.raw())[i].object().get();
    out->append(r != nullptr ? r->DebugString() : "an unbound handle");
  } else {
    out->append("?");
  }
}

// Prints from dimension `d` on; `next` is the flat index of the element that comes next.
void AppendDimension(std::string* out, const Tensor& t, int d, int64_t limit, int64_t* next) {
  if (*next >= limit) return;
  const bool last = d == t.rank() - 1;
  for (int64_t i = 0; i < t.dim(d); ++i) {
    if (*next >= limit) {
      if (last && d != 0) out->append("...");
      return;
    }
    if (last) {
      if (i > 0) out->push_back(' ');
      AppendElement(out, t, (*next)++);
    } else {
      out->push_back('[');
      AppendDimension(out, t, d + 1, limit, next);
      out->push_back(']');
    }
  }
}

}  // namespace

std::string Summarize(const Tensor& t, int64_t max_entries) {
  if (!t.valid()) return "nothing";
  const int64_t n = t.num_elements(), limit = max_entries < 0 ? n : std::min(n, max_entries);
  std::string s;
  if (t.rank() == 0) {
    if (limit > 0) AppendElement(&s, t, 0);
  } else {
    int64_t next = 0;
    AppendDimension(&s, t, 0, limit, &next);
  }
  if (n > limit) s.append("...");
  return s;
}

}  // namespace troupe::control
