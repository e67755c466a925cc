extension OutageCase {
    /// Every case there is.
    static let all = ofAPNs + ofRedis
}
