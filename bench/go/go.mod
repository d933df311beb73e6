module hotseat/bench/go

go 1.22
