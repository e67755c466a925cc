/// The upper bounds of histogram buckets, in microseconds, at most 16 for each histogram. They are constants, so that
/// the values of different fleets and releases can be added.
enum MetricBuckets {
    /// Buckets for the freshness of pushes: the time from a command's record to APNs' response. They are close together
    /// around one second, the shortest spacing of an activity's pushes.
    static let freshnessMicroseconds: [Int64] = [
        50_000, 100_000, 200_000, 300_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000,
        10_000_000, 30_000_000, 60_000_000, 300_000_000,
    ]
    static let latencyPartMicroseconds: [Int64] = [
        1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000, 30_000_000, 60_000_000,
    ]
    /// Buckets for round trips to APNs. They are close together around tens of milliseconds, the usual time to Apple's
    /// data centres.
    static let apnsRoundTripMicroseconds: [Int64] = [
        5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000,
    ]
    /// Buckets for the duration of a command to an audience: from the command's record until APNs' last response for
    /// the members of one range, or for all members. The range is wide: an audience has one page of members or ten
    /// million, and a fan-out may wait for an APNs host that is down.
    static let audienceMicroseconds: [Int64] = [
        100_000, 250_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 5_000_000, 7_500_000, 10_000_000, 15_000_000,
        20_000_000,
        30_000_000, 60_000_000, 120_000_000, 300_000_000, 900_000_000,
    ]
    static let redisRoundTripMicroseconds: [Int64] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    ]
}
