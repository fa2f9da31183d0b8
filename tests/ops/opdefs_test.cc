// Every op that TensorFlow has too is defined as there: the same args, attrs, types, defaults and
// traits, and kernels for all types that TensorFlow's CPU kernels take. cases/definitions holds
// TensorFlow's side and, in differences.txt, what differs on purpose: "op field reason".
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tests/cases/case_file.h"
#include "troupe/kernel.h"
#include "troupe/text.h"

namespace troupe::test {
namespace opdefs_test {

std::vector<std::string> Specs(const std::string& field) {
  std::vector<std::string> specs;
  size_t at = 0;
  while (at < field.size()) {
    const size_t end = std::min(field.find(" ; ", at), field.size());
    specs.push_back(field.substr(at, end - at));
    at = end + 3;
  }
  return specs;
}

// Fields between tabs; they may be empty. \n is a new line.
std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\t') {
      fields.emplace_back();
    } else if (c == '\\' && i + 1 < line.size() && line[i + 1] == 'n') {
      fields.back() += '\n';
      ++i;
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

struct Difference {
  std::string op, field, detail;
};

class Comparison {
 public:
  explicit Comparison(std::vector<Difference>* out) : out_(out) {}

  void Op(const OpDef& ours, const OpDef& theirs) {
    op_ = ours.name;
    Args("inputs", ours.inputs, theirs.inputs);
    Args("outputs", ours.outputs, theirs.outputs);
    for (const AttrDef& a : theirs.attrs) {
      if (const AttrDef* mine = ours.FindAttr(a.name)) {
        Attr(*mine, a);
      } else {
        Add("attr:" + a.name, "is missing");
      }
    }
    for (const AttrDef& a : ours.attrs) {
      if (theirs.FindAttr(a.name) == nullptr) Add("attr:" + a.name, "is not TensorFlow's");
    }
    if (ours.deprecated_since != theirs.deprecated_since)
      Add("deprecated", StrCat("since ", ours.deprecated_since, " instead of ", theirs.deprecated_since));
    constexpr std::pair<OpTrait, const char*> kTraits[] = {{OpTrait::kStateful, "stateful"},
                                                           {OpTrait::kCommutative, "commutative"},
                                                           {OpTrait::kAggregate, "aggregate"},
                                                           {OpTrait::kAllowsUninitializedInput, "uninitialized"}};
    for (const auto& [trait, name] : kTraits) {
      if (ours.Has(trait) != theirs.Has(trait)) Add(name, theirs.Has(trait) ? "is TensorFlow's only" : "is ours only");
    }
  }

  // `defined` is TensorFlow's definition: kernels for types that it does not allow do not count.
  void Kernels(const OpDef& op, const OpDef& defined, const std::string& theirs) {
    op_ = op.name;
    std::map<std::string, std::set<DType>> ours;
    bool any = false, none = true;
    for (const KernelDef* k : KernelRegistry::Global().List(op.name)) {
      if (k->device_type != "CPU" || !k->label.empty()) continue;
      none = false;
      any = any || k->constraints.empty();
      for (const auto& c : k->constraints) ours[c.attr].insert(c.types.begin(), c.types.end());
    }
    if (theirs == "none") return;
    if (none) return Add("kernels", "has no kernel for the CPU");
    if (any || theirs == "any") return;
    for (const std::string& spec : Specs(theirs)) {
      const std::string attr = spec.substr(0, spec.find('='));
      const AttrDef* def = op.FindAttr(attr);
      if (!ours.contains(attr) || def == nullptr) continue;  // no constraint, or a difference of attrs
      const std::vector<DType>& allowed = defined.FindAttr(attr)->allowed_types;
      std::string missing;
      for (const std::string& name : StrSplit(spec.substr(spec.find('=') + 1), ',')) {
        const DType t = DTypeFromName(name);
        if (ours[attr].contains(t) ||
            (!allowed.empty() && std::find(allowed.begin(), allowed.end(), t) == allowed.end()))
          continue;
        if (t == DType::kVariant)
          Add("variant", "has no kernel for variants");
        else
          StrAppend(&missing, missing.empty() ? "" : ", ", name);
      }
      if (!missing.empty()) Add("kernels:" + attr, "has no kernel for " + missing);
    }
  }

 private:
  void Add(const std::string& field, const std::string& detail) { out_->push_back({op_, field, detail}); }

  static std::string ArgText(const ArgDef& a) {
    return StrCat(a.name, ": ", a.is_ref ? "Ref " : "", a.number_attr, a.number_attr.empty() ? "" : " * ", a.type_attr,
                  a.type_list_attr, a.type == DType::kInvalid ? "" : Name(a.type));
  }
  void Args(const std::string& field, const std::vector<ArgDef>& ours, const std::vector<ArgDef>& theirs) {
    std::vector<std::string> a, b;
    for (const ArgDef& arg : ours) a.push_back(ArgText(arg));
    for (const ArgDef& arg : theirs) b.push_back(ArgText(arg));
    if (a != b) Add(field, StrCat("(", StrJoin(a, ", "), ") instead of (", StrJoin(b, ", "), ")"));
  }
  void Attr(const AttrDef& ours, const AttrDef& theirs) {
    const std::string field = "attr:" + ours.name;
    if (ours.kind != theirs.kind) return Add(field, StrCat("is ", ours.kind, " instead of ", theirs.kind));
    const std::string a = AttrText(ours.default_value), b = AttrText(theirs.default_value);
    if (a != b) Add(field, StrCat("has default ", a, " instead of ", b));
    if (ours.has_minimum != theirs.has_minimum || ours.minimum != theirs.minimum) {
      Add(field, StrCat("has minimum ", ours.has_minimum ? StrCat(ours.minimum) : "none", " instead of ",
                        theirs.has_minimum ? StrCat(theirs.minimum) : "none"));
    }
    const std::set<std::string> s(ours.allowed_strings.begin(), ours.allowed_strings.end());
    const std::set<std::string> t(theirs.allowed_strings.begin(), theirs.allowed_strings.end());
    if (s != t)
      Add(field, StrCat("allows ", StrJoin(ours.allowed_strings, ", "), " instead of ",
                        StrJoin(theirs.allowed_strings, ", ")));
    const std::set<DType> mine(ours.allowed_types.begin(), ours.allowed_types.end());
    const std::set<DType> other(theirs.allowed_types.begin(), theirs.allowed_types.end());
    std::string fewer, more;
    for (DType x : other) {
      if (!mine.empty() && !mine.contains(x)) StrAppend(&fewer, " ", Name(x));
    }
    for (DType x : mine) {
      if (!other.empty() && !other.contains(x)) StrAppend(&more, " ", Name(x));
    }
    if (other.empty() && !mine.empty()) fewer = " types beyond its list";
    if (!fewer.empty()) Add(field, "does not allow" + fewer);
    if (!more.empty() || (mine.empty() && !other.empty()))
      Add(field + ":more", StrCat("allows", mine.empty() ? " all types" : more));
  }

  std::vector<Difference>* const out_;
  std::string op_;
};

BOOST_AUTO_TEST_CASE(ops_are_defined_as_in_tensorflow) {
  std::vector<Difference> found;
  Comparison compare(&found);
  int compared = 0;
  std::set<std::string> recorded;
  for (const CaseLine& line : ReadLines("definitions/ops.txt")) {
    const std::vector<std::string> f = Fields(line.text);
    BOOST_REQUIRE_EQUAL(f.size(), 6u);
    recorded.insert(f[0]);
    const OpDef* ours = OpRegistry::Global().Find(f[0]);
    if (ours == nullptr) {
      BOOST_ERROR("there is no op " << f[0]);
      continue;
    }
    OpBuilder builder(f[0]);
    for (const std::string& s : Specs(f[1])) builder.Input(s);
    for (const std::string& s : Specs(f[2])) builder.Output(s);
    for (std::string s : Specs(f[3])) {
      // Fields are parted by tabs, so one in a default value is escaped.
      if (const size_t tab = s.find("\\t"); tab != std::string::npos) s.replace(tab, 2, "\t");
      builder.Attr(s);
    }
    for (const std::string& flag : StrSplit(f[4], ' ')) {
      if (flag == "stateful") builder.Stateful();
      if (flag == "commutative") builder.Commutative();
      if (flag == "aggregate") builder.Aggregate();
      if (flag == "uninitialized") builder.AllowsUninitializedInput();
      if (flag.starts_with("deprecated:"))
        builder.Deprecated(std::atoi(flag.c_str() + flag.find(':') + 1), "TensorFlow says so");
    }
    const auto theirs = builder.NotDifferentiable("TensorFlow's definition holds no gradient").Finish();
    BOOST_CHECK_MESSAGE(theirs.ok(), theirs.status().ToString());
    if (!theirs.ok()) continue;
    compare.Op(*ours, *theirs);
    compare.Kernels(*ours, *theirs, f[5]);
    ++compared;
  }

  std::map<std::pair<std::string, std::string>, std::pair<std::string, int>> allowed;  // (op, field) -> reason, uses
  for (const auto& [where, line] : ReadLines("definitions/differences.txt")) {
    const size_t a = line.find(' '), b = line.find(' ', a + 1);
    BOOST_REQUIRE_MESSAGE(b != std::string::npos, where << " has no reason");
    allowed[{line.substr(0, a), line.substr(a + 1, b - a - 1)}] = {line.substr(b + 1), 0};
  }
  int deliberate = 0;
  for (const Difference& d : found) {
    auto it = allowed.find({d.op, d.field});
    if (it == allowed.end()) it = allowed.find({"*", d.field});
    if (it == allowed.end()) {
      BOOST_ERROR(d.op << " " << d.field << ": " << d.detail);
      continue;
    }
    ++it->second.second;
    ++deliberate;
    BOOST_TEST_MESSAGE(d.op << " " << d.field << ": " << d.detail << " (" << it->second.first << ")");
  }
  for (const auto& [key, value] : allowed) {
    BOOST_CHECK_MESSAGE(value.second > 0, "definitions/differences.txt: " << key.first << " " << key.second
                                                                          << " does not differ any more");
  }
  std::string unrecorded;
  for (const OpDef* op : OpRegistry::Global().List()) {
    if (!recorded.contains(op->name)) StrAppend(&unrecorded, " ", op->name);
  }
  std::printf("%d ops compared with TensorFlow's definitions, %d deliberate differences; not recorded:%s\n", compared,
              deliberate, unrecorded.empty() ? " none" : unrecorded.c_str());
  BOOST_CHECK_GT(compared, 350);
}

}  // namespace opdefs_test
}  // namespace troupe::test
