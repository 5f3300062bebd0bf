module github.com/leaderbridge/leaderbridge

go 1.26.0
