// RegexFullMatch, RegexReplace, and their forms with the pattern as an attr: texts against regular
// expressions, by RE2, whose syntax these ops have by definition. RE2's time is linear in the text,
// whatever the pattern, and its memory is bounded.
#include <memory>
#include <mutex>

#include <re2/re2.h>

#include "kernels/common/op_file.h"

namespace troupe::parse {
namespace {

constexpr char kTextsAreMatched[] = "its input is text";

absl::Status ScalarsAfterTheTexts(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  return shape_fn::Unchanged(c);
}

TROUPE_OP("RegexFullMatch")
    .Input("input: string")
    .Input("pattern: string")
    .Output("output: bool")
    .Shape(ScalarsAfterTheTexts)
    .NotDifferentiable(kTextsAreMatched)
    .Doc("Whether all of each text fits `pattern`, a regular expression of RE2.");

TROUPE_OP("StaticRegexFullMatch")
    .Input("input: string")
    .Output("output: bool")
    .Attr("pattern: string")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable(kTextsAreMatched)
    .Doc("Whether all of each text fits `pattern`, a regular expression of RE2.");

TROUPE_OP("RegexReplace")
    .Input("input: string")
    .Input("pattern: string")
    .Input("rewrite: string")
    .Output("output: string")
    .Attr("replace_global: bool = true")
    .Shape(ScalarsAfterTheTexts)
    .NotDifferentiable(kTextsAreMatched)
    .Doc(
        "The texts with `rewrite` where `pattern`, a regular expression of RE2, fits: everywhere, or the first time. "
        "In `rewrite`, \\\\1 to \\\\9 stand for what the groups fit, and \\\\0 for all of it.");

TROUPE_OP("StaticRegexReplace")
    .Input("input: string")
    .Output("output: string")
    .Attr("pattern: string")
    .Attr("rewrite: string")
    .Attr("replace_global: bool = true")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable(kTextsAreMatched)
    .Doc(
        "The texts with `rewrite` where `pattern`, a regular expression of RE2, fits: everywhere, or the first time. "
        "In `rewrite`, \\\\1 to \\\\9 stand for what the groups fit, and \\\\0 for all of it.");

// A pattern and what takes its place, compiled.
class Rule {
 public:
  static absl::StatusOr<std::shared_ptr<const Rule>> Make(const std::string& pattern) {
    auto rule = std::make_shared<const Rule>(pattern);
    if (!rule->pattern_.ok()) {
      return InvalidArgument("the pattern '", CEscape(pattern.substr(0, 200)), "' is wrong: ", rule->pattern_.error());
    }
    return rule;
  }
  explicit Rule(const std::string& pattern) : pattern_(pattern, RE2::Quiet) {}

  bool Fits(const std::string& text) const { return RE2::FullMatch(text, pattern_); }
  absl::Status CheckRewrite(const std::string& rewrite) const {
    std::string why;
    if (pattern_.CheckRewriteString(rewrite, &why)) return absl::OkStatus();
    return InvalidArgument("the rewrite '", CEscape(rewrite.substr(0, 200)), "' is wrong: ", why);
  }
  void Replace(const std::string& rewrite, bool everywhere, std::string* text) const {
    if (everywhere) {
      RE2::GlobalReplace(text, pattern_, rewrite);
    } else {
      RE2::Replace(text, pattern_, rewrite);
    }
  }
  const std::string& pattern() const { return pattern_.pattern(); }

 private:
  const RE2 pattern_;
};

absl::Status WantScalar(const Tensor& t, std::string_view name) {
  if (t.rank() == 0) return absl::OkStatus();
  return InvalidArgument(name, " must be a scalar, but has shape ", t.shape().DebugString());
}

// The rule of the node, or of the last step: a pattern that is an input seldom changes.
class Rules {
 public:
  void Init(KernelInit& init) {
    absl::StatusOr<std::shared_ptr<const Rule>> rule = Rule::Make(init.Attr<std::string>("pattern"));
    if (rule.ok()) {
      rule_ = *std::move(rule);
    } else {
      init.Fail(rule.status());
    }
  }
  const std::shared_ptr<const Rule>& fixed() const { return rule_; }
  absl::StatusOr<std::shared_ptr<const Rule>> Of(const Tensor& pattern) {
    TROUPE_RETURN_IF_ERROR(WantScalar(pattern, "pattern"));
    const std::string& text = pattern.scalar<std::string>();
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (rule_ != nullptr && rule_->pattern() == text) return rule_;
    }
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const Rule> rule, Rule::Make(text));
    std::lock_guard<std::mutex> lock(mu_);
    rule_ = rule;
    return rule;
  }

 private:
  std::mutex mu_;
  std::shared_ptr<const Rule> rule_;
};

template <bool kStatic>
class FullMatchKernel {
 public:
  explicit FullMatchKernel(KernelInit& init) {
    if (kStatic) rules_.Init(init);
  }
  absl::Status Compute(KernelContext& ctx) {
    if constexpr (kStatic) {
      return Match(ctx, *rules_.fixed());
    } else {
      TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<const Rule> rule, rules_.Of(ctx.input(1)));
      return Match(ctx, *rule);
    }
  }

 private:
  static absl::Status Match(KernelContext& ctx, const Rule& rule) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
    const std::string* const from = ctx.input(0).data<std::string>();
    bool* const to = out->data<bool>();
    for (int64_t i = 0; i < out->num_elements(); ++i) to[i] = rule.Fits(from[i]);
    return absl::OkStatus();
  }

  Rules rules_;
};
TROUPE_KERNEL("RegexFullMatch").Device("CPU").Class<FullMatchKernel<false>>();
TROUPE_KERNEL("StaticRegexFullMatch").Device("CPU").Class<FullMatchKernel<true>>();

template <bool kStatic>
class ReplaceKernel {
 public:
  explicit ReplaceKernel(KernelInit& init) : everywhere_(init.Attr<bool>("replace_global")) {
    if constexpr (kStatic) {
      rules_.Init(init);
      rewrite_ = init.Attr<std::string>("rewrite");
      if (rules_.fixed() == nullptr) return;
      const absl::Status fits = rules_.fixed()->CheckRewrite(rewrite_);
      if (!fits.ok()) init.Fail(fits);
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    if constexpr (kStatic) {
      return Replace(ctx, *rules_.fixed(), rewrite_);
    } else {
      TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<const Rule> rule, rules_.Of(ctx.input(1)));
      TROUPE_RETURN_IF_ERROR(WantScalar(ctx.input(2), "rewrite"));
      const std::string& rewrite = ctx.input(2).scalar<std::string>();
      TROUPE_RETURN_IF_ERROR(rule->CheckRewrite(rewrite));
      return Replace(ctx, *rule, rewrite);
    }
  }

 private:
  absl::Status Replace(KernelContext& ctx, const Rule& rule, const std::string& rewrite) const {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
    const std::string* const from = ctx.input(0).data<std::string>();
    std::string* const to = out->data<std::string>();
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      to[i] = from[i];
      rule.Replace(rewrite, everywhere_, to + i);
    }
    return absl::OkStatus();
  }

  const bool everywhere_;
  Rules rules_;
  std::string rewrite_;
};
TROUPE_KERNEL("RegexReplace").Device("CPU").Class<ReplaceKernel<false>>();
TROUPE_KERNEL("StaticRegexReplace").Device("CPU").Class<ReplaceKernel<true>>();

}  // namespace
}  // namespace troupe::parse
