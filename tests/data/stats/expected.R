# SPDX-License-Identifier: Apache-2.0
# Expected numbers of tests/unit/test_stats.c, from R and limma (Debian: r-base-core, r-bioc-limma):
#   Rscript tests/data/stats/expected.R >tests/data/stats/expected.inc
suppressMessages(library(limma))
options(digits = 17)
cat("/* SPDX-License-Identifier: Apache-2.0\n *\n * Written by expected.R: R ", R.version$major, ".", R.version$minor,
    ", limma ", as.character(packageVersion("limma")), ".\n */\n", sep = "")
num <- function(v, w = ifelse(v == 0, 0, v)) ifelse(is.infinite(v), ifelse(v > 0, "INFINITY", "-INFINITY"), sprintf("%.15g", w))
array <- function(name, v)
  cat("static const double ", name, "[] = {\n", paste0("\t", num(v), ",\n"), "};\n", sep = "")
rows <- function(name, m)
  cat("static const double ", name, "[][", ncol(m), "] = {\n",
      paste0("\t{", apply(m, 1, function(r) paste(num(r), collapse = ", ")), "},\n"), "};\n", sep = "")

x <- c(0.01, 0.3, 0.5, 1, 2.5, 9.99, 10, 47.3, 1e5)
rows("expected_gamma", cbind(x, digamma(x), trigamma(x)))
grid <- expand.grid(t = c(0, 0.1, 1, 2.5, 7, 30, 200), df = c(1, 2, 3.7, 8, 40, 1000, Inf))
rows("expected_t", cbind(grid$t, grid$df, 2 * pt(-grid$t, grid$df)))
grid <- expand.grid(p = c(0.5, 0.8, 0.975, 0.9999), df = c(1, 2, 3.7, 8, 40, Inf))
rows("expected_t_quantile", cbind(grid$p, grid$df, qt(grid$p, grid$df)))
df <- c(1, 2, 3, 4, 8, 18, 100)
rows("expected_chi2_median", cbind(df, qchisq(0.5, df)))

# Mann-Whitney: with ties the exact distribution comes from all arrangements.
exact <- function(a, b) {
  r <- rank(c(a, b)); n <- length(a); mean <- n * (length(r) + 1) / 2
  sums <- combn(length(r), n, function(i) sum(r[i]))
  mean(abs(sums - mean) >= abs(sum(r[1:n]) - mean) - 1e-9)
}
set.seed(7)
pairs <- list(list(c(1, 2, 3), c(4, 5, 6)), list(c(1.5, 2, 9, 4), c(3, 5, 6, 7, 8)), list(c(1, 1, 2, 3), c(2, 3, 3, 4)),
              list(c(5, 5, 5), c(5, 5, 5)), list(round(rnorm(7), 1), round(rnorm(8) + 1, 1)), list(c(3), c(1, 2)))
stopifnot(abs(exact(pairs[[2]][[1]], pairs[[2]][[2]]) - wilcox.test(pairs[[2]][[1]], pairs[[2]][[2]])$p.value) < 1e-12)
m <- t(sapply(pairs, function(p) c(length(p[[1]]), length(p[[2]]), exact(p[[1]], p[[2]]),
                                   c(p[[1]], p[[2]], rep(0, 15 - length(p[[1]]) - length(p[[2]]))))))
rows("expected_mann_whitney", m)
a <- round(rnorm(60), 1); b <- round(rnorm(55) + 0.4, 1)
array("large_a", a); array("large_b", b)
array("expected_large", suppressWarnings(wilcox.test(a, b, exact = FALSE, correct = TRUE)$p.value))

p <- c(0.0001, 0.04, 0.03, 0.5, 0.011, 1, 0.04, 0.002)
array("bh_p", p); array("expected_bh_q", p.adjust(p, "BH"))

# Moderated variances: 40 variances of 4 degrees of freedom, of which the true ones differ; and 40 that do not.
spread <- 0.8 * 6 / rchisq(40, 6) * rchisq(40, 4) / 4
equal <- rchisq(40, 40) / 40
for (case in c("spread", "equal")) {
  v <- get(case); f <- fitFDist(v, if (case == "spread") 4 else 40); s <- squeezeVar(v, if (case == "spread") 4 else 40)
  array(paste0("variance_", case), v)
  array(paste0("expected_prior_", case), c(f$scale, f$df2))
  array(paste0("expected_shrunk_", case), s$var.post)
}

# Welch's t on logarithms.
a <- c(103, 98, 110); b <- c(125, 131, 119, 140)
w <- t.test(log(b), log(a))
array("expected_welch", c(w$p.value, exp(w$conf.int)))
# Size factors as DESeq's estimateSizeFactorsForMatrix.
counts <- matrix(rpois(60, rep(c(40, 90, 200, 15, 70, 30, 500, 60, 44, 81), 6) * rep(c(1, 1.1, 0.7, 2, 1.5, 0.9), each = 10)), 10)
array("size_counts", as.vector(t(counts)))
array("expected_size_factors", apply(counts, 2, function(v) exp(median(log(v) - rowMeans(log(counts))))))
# The order statistics of the median's interval and their confidence.
n <- c(3, 5, 6, 10, 20, 31)
k <- qbinom(0.025, n, 0.5)  # v[k], 1-based; 0: none
rows("expected_median_interval", cbind(n, k + 0L, ifelse(k > 0, 1 - 2 * pbinom(k - 1, n, 0.5), 1)))
# Drift: the partial correlation of value and time, given the side.
value <- c(10, 10.4, 10.9, 8.1, 8.3, 8.8); order <- c(0, 3, 4, 1, 2, 5); side <- rep(0:1, each = 3)
rel <- value / ave(value, side)
r <- cor(resid(lm(rel ~ factor(side))), resid(lm(order ~ factor(side))))
array("expected_drift", 2 * pt(-abs(r * sqrt(3 / (1 - r^2))), 3))

# The quasi-likelihood test of lib/stats/stats.h, written from its description with R's distributions.
ql <- function(v, n_a, unit) {
  n <- ncol(v); a <- 1:n_a; b <- (n_a + 1):n
  squares <- function(delta) {
    one <- function(x, u) { m <- rowMeans(x); r <- rowSums((x - m)^2 / (outer(m, u) + delta * m^2)); ifelse(m > 0, r, 0) }
    one(v[, a, drop = FALSE], unit[a]) + one(v[, b, drop = FALSE], unit[b])
  }
  m <- rowMeans(v); ma <- rowMeans(v[, a, drop = FALSE]); mb <- rowMeans(v[, b, drop = FALSE])
  df <- (ma > 0) * (length(a) - 1) + (mb > 0) * (length(b) - 1); u <- mean(unit)
  excess <- function(delta) sum(m / (u + delta * m) * ifelse(squares(delta) > qchisq(0.5, df), 1, -1))
  delta <- 0
  if (excess(0) > 0) { # where the sign changes: all breakpoints are those of single rows
    lo <- 0; hi <- 9
    for (i in 1:200) { mid <- if (lo > 0) sqrt(lo * hi) else hi / 16; if (excess(mid) > 0) lo <- mid else hi <- mid; if (hi / max(lo, 1e-300) < 1 + 1e-15) break }
    delta <- (lo + hi) / 2
  }
  phi <- squares(delta) / df; w <- delta * m / (u + delta * m)
  e <- log(pmax(phi, max(median(phi), 1e-12) * 1e-5)) - (digamma(df / 2) - log(df / 2))
  log_phi <- 0; spread <- 0
  if (sum(w^4) > 0) {
    log_phi <- sum(w * e) / sum(w^2); eff <- sum(w^2)^2 / sum(w^4)
    spread <- max(sum(w^2 * ((e - w * log_phi)^2 * eff / max(eff - 1, 1) - trigamma(df / 2))) / sum(w^4), 0)
  }
  var <- w^2 * spread
  d0 <- sapply(var, function(y) if (y > trigamma(50)) 2 * trigammaInverse(y) else 100)
  prior <- exp(w * log_phi + digamma(d0 / 2) - log(d0 / 2))
  s <- (d0 * prior + df * phi) / (d0 + df); d <- d0 + df
  mv <- function(k, mean) (mean(unit[k]) * mean + delta * mean^2) / length(k)
  t <- (mb - ma) / sqrt(s * (mv(a, m) + mv(b, m)))
  list(p = 2 * pt(-abs(t), d), delta = delta, df = d)
}
# Few runs, sides of zeros, sides without spread, values beyond 2^53: runs of A, runs of B, unit, values and p of each row.
set.seed(12)
for (k in list(c(2, 2, 1), c(2, 5, 1), c(3, 3, 1e15), c(4, 3, 0.25))) {
  n <- k[1] + k[2]; rows <- 12
  mean <- exp(rnorm(rows, log(2000), 1))
  v <- matrix(rpois(rows * n, rep(mean, n) * exp(rnorm(rows * n, 0, 0.1))), rows) + 20
  v[1, 1:k[1]] <- 0
  v[2, k[1] + seq_len(k[2])] <- 0
  v[3, ] <- 500
  v[4, ] <- rep(c(400, 440), k[1:2])
  r <- ql(v * k[3], k[1], rep(k[3], n))
  name <- paste(k[1], k[2], sep = "_")
  array(paste0("ql_values_", name), as.vector(t(v)) * k[3])
  array(paste0("expected_ql_", name), c(k, r$delta, r$p))
}
