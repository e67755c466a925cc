import Foundation

/// A content state with fields of all kinds except some sizes of integers, and an example of it.
struct RideState: Codable {
    enum Status: String, Codable, CaseIterable { case enRoute, arrived, completed }
    enum Level: Int, Codable, CaseIterable {
        case low = -7
        case middle = 0
        case high = 3
    }
    /// An enum that decodes an unknown case as `unknown`, so that later versions may add cases.
    enum Weather: String, Codable, CaseIterable {
        case sun, rain, unknown
        init(from decoder: any Decoder) throws {
            self = Weather(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .unknown
        }
    }
    enum Badge: Codable {
        case none
        case text(String, size: Int)
    }
    struct Place: Codable {
        var latitude: Double
        var longitude: Double?
        var names: [String]
    }
    struct Stop: Codable {
        enum CodingKeys: String, CodingKey {
            case place = "p"
            case at = "t"
        }
        var place: Place
        var at: Date?
    }
    /// Decodes a number or a text.
    struct Amount: Codable {
        var value: Double
        init(value: Double) { self.value = value }
        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                value = Double(text) ?? 0
            } else {
                value = try container.decode(Double.self)
            }
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }

    var driver = "Maria"
    var minutes = 7
    var small = Int8(3)
    var port = UInt16(443)
    var large = UInt64(12)
    var distance = 1.25
    var ratio = Float(0.5)
    var price = Decimal(12)
    var isLate = false
    var at = Date(timeIntervalSinceReferenceDate: 811_693_100)
    var eta = Date(timeIntervalSinceReferenceDate: 1)...Date(timeIntervalSinceReferenceDate: 2)
    var link = URL(string: "https://example.com/ride")
    var image = Data([0, 1, 2])
    var identifier = UUID(uuidString: "0B7A3C50-7D2E-4C11-9B5A-6F1D2E3C4B5A")
    var status = Status.enRoute
    var level = Level.high
    var weather = Weather.rain
    var badge = Badge.text("new", size: 2)
    var amount = Amount(value: 2)
    var place = Place(latitude: 1, longitude: 2, names: ["a"])
    var stops = [Stop(place: Place(latitude: 1, longitude: nil, names: []), at: nil)]
    var scores: [String: Int] = ["home": 2, "away": 1]
    var ids: [Int?] = [1, nil]
    var note: String?
    var last: Stop?
}

struct RideAttributes: Codable {
    var rider = "Ann"
    var seats = 2
    var vip: Bool?
}
