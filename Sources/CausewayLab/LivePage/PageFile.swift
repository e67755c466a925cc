/// A file of the live page. The files are part of the program.
enum PageFile: String, CaseIterable {
    case page = "/"
    case style = "/page.css"
    case main = "/main.js"
    case phoneGrid = "/phonegrid.js"
    case largePhones = "/largephones.js"
    case lockScreen = "/lockscreen.js"
    case figures = "/figures.js"
    case phoneHistory = "/phonehistory.js"

    init?(path: String) { self.init(rawValue: path) }

    var contentType: String {
        switch self {
        case .page: "text/html; charset=utf-8"
        case .style: "text/css; charset=utf-8"
        default: "text/javascript; charset=utf-8"
        }
    }

    var content: [UInt8] {
        switch self {
        case .page: PackageResources.page_html
        case .style: PackageResources.page_css
        case .main: PackageResources.main_js
        case .phoneGrid: PackageResources.phonegrid_js
        case .largePhones: PackageResources.largephones_js
        case .lockScreen: PackageResources.lockscreen_js
        case .figures: PackageResources.figures_js
        case .phoneHistory: PackageResources.phonehistory_js
        }
    }
}
