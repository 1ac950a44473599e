module emq

go 1.26
