module measure

go 1.18
