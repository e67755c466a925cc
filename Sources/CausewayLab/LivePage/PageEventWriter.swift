import Documents
import Numbers

/// Writes one event of the page's stream. Joins pieces of JSON without parsing them, and copies each piece only once,
/// because each viewer gets four events a second.
struct PageEventWriter {
    /// The maximum number of phones that events describe in full. The page shows these phones large, as many as fit.
    static let focusedPhonesPerPageMax = 24

    /// Returns the numbers of the phones that events describe in full. These phones are spread evenly over all phones,
    /// so that many matches are shown.
    static func focusedPhoneNumbers(phoneCount: Int) -> [Int] {
        guard phoneCount > focusedPhonesPerPageMax else { return Array(0..<max(0, phoneCount)) }
        return (0..<focusedPhonesPerPageMax).map { (2 * $0 + 1) * phoneCount / (2 * focusedPhonesPerPageMax) }
    }

    /// Returns the whole number after the first occurrence of a property's name, at any depth; nil if there is none.
    /// Does not parse the JSON, so the caller must know that the first occurrence is the right one.
    static func firstNumber(_ name: String, in response: [UInt8]) -> Int? {
        let key = Array("\"\(name)\":".utf8)
        guard response.count > key.count else { return nil }
        for start in 0..<response.count - key.count
        where response[start] == key[0] && response[start..<start + key.count].elementsEqual(key) {
            let digits = response[(start + key.count)...].prefix(18).prefix { $0 &- UInt8(ascii: "0") < 10 }
            return digits.withUnsafeBytes { Decimal.parse($0) }.map { Int($0) }
        }
        return nil
    }

    /// Returns the bytes of one server-sent event for the page.
    ///
    /// - Parameters:
    ///   - screens: the response to `GET /screens`; nil if no simulator responds.
    ///   - hasAllPhones: whether `screens` has all phones. If so, the page forgets the phones that it showed before.
    ///   - service: the response to `GET /stats`: the counts of the simulated APNs. Nil if no simulator responds.
    static func event(
        screens: [UInt8]?,
        hasAllPhones: Bool,
        service: [UInt8]?,
        figures: [UInt8],
        allowedActions: Set<PageAction>,
        remarks: [PageAction: String] = [:],
        disturbances: PageDisturbances,
        nowMilliseconds: Int64
    ) -> [UInt8] {
        let null = Array("null".utf8)
        var bytes = Array("data: {\"whole\":\(hasAllPhones),\"screens\":".utf8)
        bytes += screens ?? null
        bytes += Array(",\"service\":".utf8)
        bytes += service ?? null
        bytes += Array(",\"figures\":".utf8)
        bytes += figures
        let actions = PageAction.allCases.map { action in
            let remainingMilliseconds =
                disturbances.endMillisecondsByAction[action].map { max(0, $0 - nowMilliseconds) } ?? 0
            let remark = remarks[action].map { ",\"remark\":\(quoted($0))" } ?? ""
            return
                "\"\(action.rawValue)\":{\"allowed\":\(allowedActions.contains(action)),\"on\":\(disturbances.isOn(action)),"
                + "\"leftMilliseconds\":\(remainingMilliseconds)\(remark)}"
        }
        bytes += Array(",\"actions\":{\(actions.joined(separator: ","))}}\n\n".utf8)
        return bytes
    }

    /// Returns a text as a JSON string, with quotes.
    static func quoted(_ text: String) -> String {
        // Encoding cannot fail, because JSON can represent every text.
        (try? StableJSON.text(text)) ?? "\"\""
    }
}
