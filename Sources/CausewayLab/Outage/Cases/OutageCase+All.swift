extension OutageCase {
    /// The cases of all files, in the order in which they run.
    static let all = ofAPNs + ofNeighbours + ofRedis + ofKafka + ofAges + ofLifetimes + ofWorkers
}
